"""A run as a callable class over batches of columns, as Ray Data and other libraries for large data map one over their rows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from regard.commands.loaded import assignments
from regard.commands.predict import CHUNK
from regard.commands.predict_table import Tabular
from regard.core.errors import UserError
from regard.runs.protocols import Draws, Forecasting
from regard.tasks.notices import check_length
from regard.tasks.registry import open_run

Batch = Mapping[str, Sequence[Any]]  # columns of equal length, as numpy arrays or lists
PREDICTED = "predicted"


class BatchPredictor:
    """A run that answers batches: columns come in, and go out with what the model says of their texts in new ones.

        answered = ray.data.read_text("new.en").map_batches(
            regard.BatchPredictor, fn_constructor_args=("runs/translate",), concurrency=2
        )

    The new column is `predicted`, with the line that `regard predict` prints, or its JSON with `as_json`. A model that answers
    rows of tables adds the columns that it adds there, such as `predicted` and `probability`; a row without a text gets None.

    `columns` are those of the texts: two for pairs, a question and its context. `number` is a column with the number of each
    row among all, which sampling needs: what is drawn for a row depends on its number and the seed alone.
    """

    def __init__(
        self,
        run: str,
        settings: Mapping[str, Any] | None = None,
        *,
        columns: Sequence[str] = ("text",),
        number: str | None = None,
        as_json: bool = False,
        device: str | None = None,
    ) -> None:
        self.predictor: Any = open_run(run, device, assignments(settings, {}))
        self.columns, self.number, self.as_json = [columns] if isinstance(columns, str) else list(columns), number, as_json
        if isinstance(self.predictor, (Draws, Forecasting)):
            raise UserError(f"{run} draws or forecasts, and answers no texts; give another run.")
        if number is None and getattr(getattr(self.predictor, "decode", None), "search", "") == "sample":
            raise UserError(
                f"{run} samples, and what it draws depends on the number of a row; give number='COLUMN', a column of whole "
                "numbers, or another search: settings={'decode.search': 'beam'}."
            )

    def __call__(self, batch: Batch) -> dict[str, Any]:
        """Return the columns of a batch and the new ones."""
        rows = self._rows(batch)
        numbers = self._numbers(batch, len(rows))
        found: list[Mapping[str, Any]] = [{} for _ in rows]
        answer = self._fields if self._answers_rows else self._lines
        places = [n for n, row in enumerate(rows) if not self._answers_rows or all(text.strip() for text in row)]
        for some in _together(places, numbers):
            for place, fields in zip(some, answer([rows[n] for n in some], numbers[some[0]]), strict=True):
                found[place] = fields
        new = self.predictor.tells if self._answers_rows else (PREDICTED,)
        if taken := [name for name in new if name in batch]:
            raise UserError(f"the batch has a column {taken[0]!r} already, which the answers would replace; rename it.")
        return {**batch, **{name: _array([fields.get(name) for fields in found]) for name in new}}

    @property
    def _answers_rows(self) -> bool:
        return isinstance(self.predictor, Tabular) and not self.as_json

    def _rows(self, batch: Batch) -> list[tuple[str, ...]]:
        rows = list(zip(*(self._column(batch, name) for name in self.columns), strict=True))
        for number, row in enumerate(rows):
            for name, text in zip(self.columns, row):
                if not isinstance(text, str):
                    raise UserError(
                        f"row {number} of a batch has {text!r} in column {name!r}, which is no text; leave such rows out."
                    )
                check_length(text, f"column {name!r}, row {number} of a batch")
        return rows

    def _numbers(self, batch: Batch, count: int) -> list[int]:
        if self.number is None:
            return list(range(count))
        given = list(self._column(batch, self.number))
        if wrong := [number for number in given if not isinstance(number, int | np.integer)]:
            raise UserError(
                f"a batch has {wrong[0]!r} in column {self.number!r}, which is no whole number; number the rows from 0."
            )
        return [int(number) for number in given]

    def _column(self, batch: Batch, name: str) -> Sequence[Any]:
        if name not in batch:
            raise UserError(
                f"the batch has no column {name!r}, but {', '.join(map(repr, batch))}; name it with columns= or number=."
            )
        return batch[name]

    def _fields(self, rows: Sequence[tuple[str, ...]], first: int) -> Sequence[Mapping[str, Any]]:
        found: Sequence[Mapping[str, Any]] = self.predictor.fields(rows, first)
        return found

    def _lines(self, rows: Sequence[tuple[str, ...]], first: int) -> Sequence[Mapping[str, Any]]:
        pieces: list[str] = []
        self.predictor.predict(["\t".join(row) for row in rows], first, self.as_json, pieces.append)
        lines = "".join(pieces).split("\n")[:-1]
        if len(lines) != len(rows):
            raise UserError(
                f"this run writes {len(lines)} lines for {len(rows)} texts; give as_json=True, which is one for each."
            )
        return [{PREDICTED: line} for line in lines]


def _together(places: Sequence[int], numbers: Sequence[int]) -> Iterator[list[int]]:
    """Yield the places of rows that are answered together: a few, whose numbers follow each other."""
    for _, run in groupby(enumerate(places), key=lambda pair: numbers[pair[1]] - pair[0]):
        following = [place for _, place in run]
        yield from (following[start : start + CHUNK] for start in range(0, len(following), CHUNK))


def _array(values: Sequence[Any]) -> np.ndarray:
    """Return a column: numbers as numbers, and what is neither number nor text as JSON, as in a table."""
    given = [value for value in values if value is not None]
    if given and all(isinstance(value, float | int) for value in given):
        return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    texts = [value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False) for value in values]
    return np.array(texts, dtype=object)
