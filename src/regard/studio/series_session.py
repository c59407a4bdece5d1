"""Runs that forecast, as studio needs them: an input is a window of the run's own table, named SERIES/CHANNEL@ROW.

No name in a request leads to a file: the table is the one that the run was trained on, read when the first window is asked for.

Dims: as in `tasks/forecasting/inspect.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch import nn

from regard.commands.subjects import must_attend_over_time
from regard.core.errors import UserError
from regard.data.sources.series import read_series
from regard.data.sources.series_table import SeriesTable
from regard.lens.analyses.word_senses import WordUses
from regard.lens.subject import Subject
from regard.runs.recipe import Recipe
from regard.studio.session import Session
from regard.studio.vocabulary import Vocabulary
from regard.tasks.forecasting.inspect import last_row, window_subject

NO_WORDS = "this model forecasts numbers, so it has no words; Run shows its forecasts and what their times attend to."
MOST = 400  # series and channels that can be chosen


@dataclass(frozen=True, eq=False)
class SeriesSession(Session):
    answers: Any  # a forecaster
    recipe: Recipe
    task: str
    weights: str

    @property
    def model(self) -> nn.Module:
        found: nn.Module = self.answers.model
        return found

    @cached_property
    def table(self) -> SeriesTable:
        return read_series(self.recipe.data.train, self.recipe.data)

    @cached_property
    def windows(self) -> dict[str, tuple[int, int]]:
        """Return the series and the channel of each name."""
        pairs = [(n, c) for n in range(len(self.table.series)) for c in range(len(self.table.channels))]
        return {self._name(n, c): (n, c) for n, c in pairs[:MOST]}

    def _name(self, series: int, channel: int) -> str:
        name = self.table.series[series].name
        return f"{name}/{self.table.channels[channel]}" if name else self.table.channels[channel]

    def _rows(self, name: str) -> tuple[int, int]:
        """Return the first and the last row that a window may end before."""
        return self.recipe.model.lookback, last_row(self.answers, self.table.series[self.windows[name][0]])

    @property
    def example(self) -> str:
        name = next(iter(self.windows))
        first, last = self._rows(name)
        return f"{name}@{max(first, last - self.recipe.model.horizon)}"

    @property
    def series(self) -> dict[str, Any]:
        """Return the windows that can be chosen: names, the first and last rows, and the sizes of a window."""
        rows = {name: self._rows(name) for name in self.windows}
        c = self.recipe.model
        return {"names": list(rows), "rows": list(rows.values()), "lookback": c.lookback, "horizon": c.horizon}

    def subject(self, text: str, target: str | None) -> Subject:
        must_attend_over_time(self.model)
        name, _, row = text.strip().rpartition("@")
        if name not in self.windows or not (row.isascii() and row.isdigit() and len(row) < 10):
            raise UserError(f"{text[:60]!r} is no window of this run; give a channel and a row, such as {self.example}.")
        first, last = self._rows(name)
        if not first <= int(row) <= last:
            raise UserError(f"a window of {name} ends at a row from {first:,} to {last:,}, and {int(row):,} was given.")
        series, channel = self.windows[name]
        return window_subject(self.answers, self.table, self.table.series[series], int(row), channel, self.recipe.data.train[0])

    def answer(self, text: str) -> str:
        return self.subject(text, None).title

    def vocabulary(self) -> Vocabulary:
        raise UserError(NO_WORDS)

    def uses(self, word: str, sentences: Sequence[str]) -> WordUses:
        raise UserError(NO_WORDS)
