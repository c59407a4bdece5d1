"""A trained forecaster: the next values of a table, with intervals where it knows quantiles, and its scores on a test.

Dims: B batch, L look-back, H horizon, C channels, Q quantiles.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from regard.core.atomic import check_place
from regard.core.errors import UserError
from regard.core.files import write_whole
from regard.core.terminal import Emit
from regard.data.batching.series import SCALING, Scaling, Window, make_windows
from regard.data.sources.calendar import calendar_of
from regard.data.sources.series import Series, SeriesTable, next_dates, read_series
from regard.families import build_model
from regard.interop.huggingface.hub import local_folder
from regard.lens.plots.backtest import draw_backtest
from regard.lens.plots.forecast import Shown, draw_forecasts
from regard.lens.subject import Subject
from regard.metrics.forecasting import ForecastScores, baselines, measure
from regard.objectives.forecasting import MEDIAN, quantiles_of
from regard.runs.folder import Run
from regard.runs.load import load_model, must_be_as_trained, ready
from regard.runs.pretrained import InitCheckpoint
from regard.runs.protocols import Vocabulary
from regard.runs.recipe import Recipe, Tables
from regard.runs.task import lazy
from regard.tasks.forecasting.backtest import rolling, steps_of
from regard.tasks.forecasting.inspect import table_subject
from regard.tasks.forecasting.prepare import TestSeries, heads_of, together
from regard.tasks.predictor import EvaluationResult

HISTORY = 2  # horizons or look-backs, whichever is less, that are drawn before a forecast


@dataclass(frozen=True, eq=False)
class Next:
    """A forecast of one series: values_HC in units, quantiles_HCQ where there are any, and its times."""

    series: Series
    values_HC: np.ndarray
    quantiles_HCQ: np.ndarray | None
    dates: np.ndarray | None
    channels: tuple[str, ...] = ()


@dataclass
class Forecasts:
    """Forecasts the series of a table."""

    model: Any
    scaling: Scaling
    recipe: Recipe

    tokenizer = None
    example = "SERIES.csv"
    routes = lazy("regard.tasks.forecasting.serve:routes")

    @classmethod
    def of(cls, source: Run | InitCheckpoint, recipe: Recipe, device: torch.device) -> Self:
        """Open a run, or a public folder as it is."""
        scaling = _scaling_of(source)
        heads = heads_of(recipe, scaling)

        def build() -> Any:
            return build_model(recipe.model, vocabulary=0, heads=heads)

        if isinstance(source, Run):
            must_be_as_trained(source, _with_its_quantiles(recipe, source))
            model = load_model(source, build)
        else:
            model = source.open(build)
        return cls(ready(model, recipe.decode.weights, device), scaling, recipe)

    @property
    def device(self) -> torch.device:
        device: torch.device = next(self.model.parameters()).device
        return device

    @property
    def vocabularies(self) -> dict[str, Vocabulary]:
        return {SCALING: self.scaling}

    @property
    def quantiles(self) -> tuple[float, ...]:
        levels: tuple[float, ...] = self.recipe.objective.levels
        return levels

    # --- the next values ------------------------------------------------------------------------------------------------------
    def next(self, where: str) -> tuple[list[Next], str]:
        """Return what comes after the end of each series of a table, and the name of its column of dates."""
        table = read_series((where,), self.recipe.data, forecasts=True)
        return self.next_of(table, where), table.time

    @torch.no_grad()
    def next_of(self, table: SeriesTable, where: str) -> list[Next]:
        """Return what comes after the end of each series of a table that is read; `where` names it in errors."""
        self.scaling.must_suit(table, where)
        found = [self._next(one, where) for one in table.series]
        return [replace(one, channels=table.channels) for one in found]

    def rows_of(self, one: Series) -> int:
        """Return how many rows have values; rows behind them have what is known in advance alone."""
        empty_T = np.isnan(one.values_TC).all(1)
        return int(empty_T.argmax()) if empty_T.any() else len(one)

    def with_future(self, one: Series, rows: int) -> Series:
        """Add the calendar of the dates behind the last one, where that is all that is known in advance."""
        ahead, data = rows + self.recipe.model.horizon - len(one), self.recipe.data
        if one.dates is None or not data.calendar or data.known or ahead <= 0:
            return one
        more = calendar_of(next_dates(one.dates, ahead), data.calendar)
        return replace(one, known_TE=np.concatenate([one.known_TE, more]))

    def window(self, one: Series, rows: int, where: str) -> Window:
        """Return what the model reads of the rows before this one, as a batch of one; its future is empty."""
        lookback, horizon = self.recipe.model.lookback, self.recipe.model.horizon
        if rows < lookback:
            raise UserError(
                f"{where}{f', series {one.name!r},' if one.name else ''} has {rows:,} rows of values, and this run reads "
                f"model.lookback={lookback}; give a longer table."
            )
        values_TC, known_TE = self.scaling.scaled(one)
        past_BLC = torch.from_numpy(values_TC[rows - lookback : rows])[None].to(self.device)
        known_BME = static_BS = None
        if known_TE.shape[1]:
            if len(known_TE) < rows + horizon:
                name = (*self.recipe.data.known, *self.scaling.known)[0]
                raise UserError(
                    f"{where} knows {name!r} for {len(known_TE) - rows:,} times after its last values, and a forecast of "
                    f"{horizon} needs as many; add rows whose channels are empty."
                )
            known_BME = torch.from_numpy(known_TE[rows - lookback : rows + horizon])[None].to(self.device)
        if self.scaling.static:
            static_BS = torch.from_numpy(self.scaling.static_of(one, self.recipe.data.static, where))[None].to(self.device)
        return Window(past_BLC, past_BLC[:, :0], known_BME, static_BS)

    def in_units(self, found: Tensor) -> tuple[np.ndarray, np.ndarray | None]:
        """Return values_HC and quantiles_HCQ, if there are any, of what the model wrote."""
        quantiles = quantiles_of(found, self.recipe.objective)
        if quantiles is None:
            return self.scaling.units(found.double().numpy()), None
        units_HCQ = self.scaling.units(quantiles.double().numpy().swapaxes(1, 2)).swapaxes(1, 2)
        return units_HCQ[..., self.quantiles.index(MEDIAN)], units_HCQ

    def _next(self, one: Series, where: str) -> Next:
        rows = self.rows_of(one)
        window = self.window(self.with_future(one, rows), rows, where)
        values_HC, quantiles_HCQ = self.in_units(self.model(*window.given)[0].float().cpu())
        dates = None if one.dates is None else one.dates[:rows]
        past = replace(one, values_TC=one.values_TC[:rows], known_TE=one.known_TE[:rows], dates=dates)
        return Next(past, values_HC, quantiles_HCQ, None if dates is None else next_dates(dates, self.recipe.model.horizon))

    # --- attention ------------------------------------------------------------------------------------------------------------
    def subject(self, text: str, target: str | None = None, hypothesis: int | None = None) -> Subject:
        return table_subject(self, text, target)

    def test_texts(self, test: TestSeries) -> Iterator[tuple[str, str | None]]:
        yield test.where, None

    def predict(self, texts: Sequence[str], first: int | None, as_json: bool, emit: Emit) -> None:
        self.forecast_to(texts, None, as_json, emit)

    def forecast_to(self, texts: Sequence[str], output: Path | None, as_json: bool, emit: Emit) -> None:
        """Write the next values of a table as CSV, as JSON lines, or as a picture; without a table, of what was trained on."""
        named = [text.strip() for text in texts if text.strip()] or [*self.recipe.data.train]
        if not named:
            raise UserError("this model came without data; give the table that it should continue, such as load.csv.")
        if len(named) > 1:
            raise UserError(f"{len(named)} tables were given; give one, such as {named[0]}.")
        if output is not None:
            check_place(output, "--output")
            if output.suffix.lower() not in (".csv", ".png", ".jsonl"):
                raise UserError(f"--output {output}: forecasts are written as .csv, .jsonl or .png; give such a name.")
        found, time = self.next(named[0])
        if output is not None and output.suffix.lower() == ".png":
            write_whole(
                output, draw_forecasts(self._shown(found), f"The next {self.recipe.model.horizon} times of {Path(named[0]).name}")
            )
        else:
            lines = as_json or (output is not None and output.suffix.lower() == ".jsonl")
            text = self._json(found, time) if lines else self._csv(found, time)
            if output is None:
                emit(text)
                return
            write_whole(output, text)
        emit(f"{output}: {self.recipe.model.horizon} times of {len(found):,} series, {len(self.scaling)} channels\n")

    def _header(self, found: Sequence[Next]) -> list[str]:
        outer = [q for q in self.quantiles if q != MEDIAN]
        return [cell for name in found[0].channels for cell in (name, *(f"{name} {q:g}" for q in outer))]

    def _rows(self, one: Next) -> list[list[float]]:
        outer = [n for n, q in enumerate(self.quantiles) if q != MEDIAN]
        rows = []
        for h in range(len(one.values_HC)):
            row = []
            for c in range(one.values_HC.shape[1]):
                row.append(float(one.values_HC[h, c]))
                if one.quantiles_HCQ is not None:
                    row += [float(one.quantiles_HCQ[h, c, n]) for n in outer]
            rows.append(row)
        return rows

    def _places(self, one: Next, time: str) -> list[dict[str, str]]:
        """Return what each time is called: its series, and its date or how many steps ahead it is."""
        series = {self.recipe.data.series: one.series.name} if self.recipe.data.series else {}
        if one.dates is None:
            return [{**series, "step": str(h + 1)} for h in range(len(one.values_HC))]
        return [{**series, time: str(date).replace("T", " ")} for date in one.dates]

    def _csv(self, found: Sequence[Next], time: str) -> str:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([*self._places(found[0], time)[0], *self._header(found)])
        for one in found:
            for place, row in zip(self._places(one, time), self._rows(one)):
                writer.writerow([*place.values(), *(f"{value:.7g}" for value in row)])
        return text.getvalue()

    def _json(self, found: Sequence[Next], time: str) -> str:
        header = self._header(found)
        records = (
            {**place, **dict(zip(header, row))} for one in found for place, row in zip(self._places(one, time), self._rows(one))
        )
        return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)

    def _shown(self, found: Sequence[Next]) -> list[Shown]:
        c = self.recipe.model
        past = HISTORY * max(c.horizon, min(c.lookback, 4 * c.horizon))
        shown = []
        for one in found:
            for n, name in enumerate(one.channels):
                outer = None if one.quantiles_HCQ is None else (one.quantiles_HCQ[:, n, 0], one.quantiles_HCQ[:, n, -1])
                told = f"{one.series.name} {name}".strip()
                shown.append(Shown(told, one.series.values_TC[-past:, n], one.values_HC[:, n], outer, self.share))
        return shown

    @property
    def share(self) -> str:
        """Return what part of the values the interval should hold."""
        return f"{self.quantiles[-1] - self.quantiles[0]:.0%}" if self.quantiles else ""

    # --- scores ---------------------------------------------------------------------------------------------------------------
    def evaluate(self, test: TestSeries) -> EvaluationResult[ForecastScores]:
        """Score every window of a test beside simple forecasts."""
        c, data = self.recipe.model, self.recipe.data
        self.scaling.must_suit(test.table, test.where)
        windows = make_windows(test.table, self.scaling, test.spans, c.lookback, c.horizon)
        fit = None
        if test.fit is not None and self.scaling.suits(test.fit):
            fit = make_windows(test.fit, self.scaling, [(0, end) for end in test.ends], c.lookback, c.horizon)
        forecasts = {"model": self.model, **dict(baselines(fit, c.lookback, c.horizon, data.season))}
        batches = (batch.to(self.device) for batch in windows.in_order(together(self.recipe, len(self.scaling))))
        zero_C = self.scaling.zero().tolist()
        errors, count = measure(forecasts, batches, self.recipe.objective, zero_C)
        deviation, scaled = self.scaling.deviation[: len(self.scaling)], data.scaling == "standard"
        best = tuple(mse / unit**2 for mse, unit in zip(test.best, deviation))
        names, season_error = test.table.channels, self.scaling.season_error
        scores = ForecastScores(errors, count, names, deviation, season_error, self.recipe.objective, scaled, best)
        return EvaluationResult(scores, [], draw=lambda: draw_backtest(rolling(self, test), steps_of(scores), self.share))


def adopted_settings(start: InitCheckpoint) -> Tables:
    """Return the settings of a public model: values as they are, or by the scale that came with them."""
    scaled = any(_scaling_of(start).channels)
    asked = start.settings["model"].get("distribution", "")
    return {"data": {"scaling": "standard" if scaled else "none"}, "objective": {"loss": asked} if asked else {}}


def export_settings(run: Run, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a run's model with the sizes that its data decided, where the family has settings for them."""
    scaling, loss = Scaling.load(run.folder / SCALING), run.recipe.objective
    decided: dict[str, Any] = {"channels": len(scaling), "known_features": len(scaling.known)}
    decided |= {"static_features": len(scaling.static), "distribution": loss.loss if loss.distribution else ""}
    if settings.get("cardinalities"):  # categories are columns too
        del decided["static_features"]
    return settings | {key: value for key, value in decided.items() if key in settings}


def _scaling_of(source: Run | InitCheckpoint) -> Scaling:
    """Return the scale of a run, or the one that an export left beside its weights; else values are taken as they are."""
    if isinstance(source, Run):
        return Scaling.load(source.folder / SCALING)
    path = local_folder(source.name) / SCALING
    if path.is_file():
        return Scaling.load(path)
    model = source.settings["model"]
    if model.get("static_features") or model.get("cardinalities"):
        raise UserError(
            f"{source.name} reads what is static in a series, and has no scaling.json that names its columns; open it in Python "
            "with read_public, or train one by 'regard train'."
        )
    return Scaling.unnamed(source.vocabulary, model.get("known_features", 0))


def _with_its_quantiles(recipe: Recipe, run: Run) -> Recipe:
    """Return a recipe with the quantiles of its run, where they are of a distribution and may be changed."""
    if recipe.objective.distribution is None:
        return recipe
    return replace(recipe, objective=replace(recipe.objective, quantiles=run.recipe.objective.quantiles))
