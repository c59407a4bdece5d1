"""Prepare time series for a model that forecasts them: read, split by time, scaled by training alone."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from regard.core.errors import UserError
from regard.data.batching.series import SCALING, Scaling, WindowBatches, Windows, make_windows
from regard.data.builtin.series import best_error, draw_series, is_builtin
from regard.data.sources.series import SeriesTable, read_series
from regard.families import FAMILIES, build_model, count_model, family_of
from regard.families.base import Heads
from regard.families.flops import Part
from regard.objectives.base import Objective
from regard.runs.folder import Run, Say
from regard.runs.prepared import Measured, Prepared, losses_of, mean_losses
from regard.runs.pretrained import start_of
from regard.runs.protocols import Vocabulary
from regard.runs.recipe import Recipe
from regard.training.loop import Validation

BATCH = 64  # windows, where train.examples_per_batch is not given
TOGETHER = 2**24  # numbers of windows that are forecast together outside training


@dataclass(frozen=True, eq=False)
class TestSeries:
    """The test of a recipe: a table, which rows of each series are forecast, and the training part to fit simple forecasts to."""

    table: SeriesTable
    spans: tuple[tuple[int, int], ...]
    fit: SeriesTable | None
    ends: tuple[int, ...]  # of the training part of each series of `fit`
    where: str
    best: tuple[float, ...] = ()  # in units

    __test__ = False  # for pytest, which looks for classes called Test


def heads_of(recipe: Recipe, scaling: Scaling) -> Heads:
    covariates, statics = len(scaling.known), len(scaling.static)
    return Heads(words=False, channels=len(scaling), covariates=covariates, statics=statics, **recipe.objective.heads)


def read_test(recipe: Recipe) -> TestSeries:
    """Read the last part of data.train, or data.test whole, and the training part."""
    data, model = recipe.data, recipe.model
    if not data.test and not data.train:
        raise UserError("there is nothing to score: this model came without data; give a table as data.test=FILE.")
    if not data.test and not data.test_fraction and data.split == "shares":
        raise UserError("there is nothing to score: data.test_fraction=0 and no data.test; give a table as data.test=FILE.")
    train = None
    # The table may be gone when another is scored.
    if data.train and (not data.test or is_builtin(data.train[0]) or Path(data.train[0]).exists()):
        train = read_series(data.train, data)
    ends = () if train is None else tuple(data.borders(len(one))[0] for one in train.series)
    if data.test:
        table = read_series(data.test, data)
        spans = tuple((min(model.lookback, len(one)), len(one)) for one in table.series)
        where = data.test[0]
    else:
        assert train is not None
        table, where = train, data.train[0]
        spans = tuple(data.borders(len(one))[1:] for one in train.series)
    _must_have_windows(table, spans, recipe, "test", where)
    return TestSeries(table, spans, train, ends, where, _best(recipe, where, table))


def _best(recipe: Recipe, where: str, table: SeriesTable) -> tuple[float, ...]:
    """Return the least squared error that is possible, where the series are built in."""
    names = draw_series(where).names if is_builtin(where) else ()
    if not {*table.channels} <= {*names}:
        return ()
    least_C = best_error(where, recipe.model.horizon, "event" in table.known)
    return tuple(float(least_C[names.index(name)]) for name in table.channels)


def _must_have_windows(table: SeriesTable, spans: Iterable[tuple[int, int]], recipe: Recipe, split: str, where: str) -> None:
    model, given = recipe.model, list(spans)
    for one, (_, end) in zip(table.series, given):
        if end > len(one):
            raise UserError(
                f"data.split={recipe.data.split} needs {end:,} rows, and {where} has {len(one):,}; set data.split=shares."
            )
    if not any(end - max(0, begin - model.lookback) >= model.lookback + model.horizon for begin, end in given):
        most = max(end - max(0, begin - model.lookback) for begin, end in given)
        raise UserError(
            f"{where}: the {split} part has {most:,} rows with its look-back, and a window has model.lookback={model.lookback} + "
            f"model.horizon={model.horizon}; give more rows, or shorten one of them."
        )


def prepare(recipe: Recipe, folder: Path | None, say: Say) -> ForecastData:
    """Read and check the data and measure its scale. Nothing is written."""
    data, model = recipe.data, recipe.model
    if not data.train:
        raise UserError("data.train is empty; give a table of numbers, such as load.csv, or builtin:series/seasons.")
    _must_read_covariates(recipe)
    if recipe.train.activation_checkpointing and (
        getattr(model, "residual_scores", False) or getattr(model, "batch_norm", False)
    ):
        raise UserError(
            "train.activation_checkpointing=true runs layers twice, and scores handed on and batch normalisation would change; "
            "leave it out, or set model.residual_scores=false and model.batch_norm=false."
        )
    _must_suit_objective(recipe)
    begun = folder is not None and (folder / SCALING).exists()
    start = start_of(recipe.task.init_from) if recipe.task.init_from and not begun else None
    train = read_series(data.train, data)
    borders = [data.borders(len(one)) for one in train.series]
    ends = [border[0] for border in borders]
    spans = {"train": [(0, end) for end in ends]}
    tables = {"train": train, "valid": train}
    if data.valid:
        tables["valid"] = read_series(data.valid, data)
        spans["valid"] = [(min(model.lookback, len(one)), len(one)) for one in tables["valid"].series]
    else:
        spans["valid"] = [border[:2] for border in borders]
    for split, table in tables.items():
        _must_have_windows(table, spans[split], recipe, split, (data.valid if split == "valid" and data.valid else data.train)[0])
    scaling = Scaling.load(folder / SCALING) if begun and folder else _scaling(train, ends, recipe)
    for table in tables.values():
        scaling.must_suit(table, data.train[0])
    made = {
        split: make_windows(table, scaling, spans[split], model.lookback, model.horizon, data.stride if split == "train" else 1)
        for split, table in tables.items()
    }
    test = read_test(recipe) if data.test or data.test_fraction or data.split != "shares" else None
    for line in _told(train, made, scaling, test, recipe):
        say(line)
    return ForecastData(recipe=recipe, start=start, train=made["train"], valid=made["valid"], test=test, scaling=scaling)


def _must_read_covariates(recipe: Recipe) -> None:
    """Refuse columns that the family would not read."""
    data, family = recipe.data, family_of(recipe.model)
    for key, names, capability, what in (
        ("known", data.known, "covariates", "is known in advance"),
        ("calendar", data.calendar, "covariates", "is known in advance"),
        ("static", data.static, "static_covariates", "is constant in a series"),
    ):
        if names and not family.has(capability):
            able = [name for name in sorted(FAMILIES) if FAMILIES[name].has(capability)]
            raise UserError(
                f"data.{key}={','.join(names)} {what}, but model.family={recipe.model.family} reads the past of the channels "
                f"alone; choose model.family={' or '.join(able)}, or leave it out."
            )


def _must_suit_objective(recipe: Recipe) -> None:
    """Refuse settings that would make something else of counts."""
    distribution = recipe.objective.distribution
    if distribution is None or not distribution.counts:
        return
    given = f"objective.loss={recipe.objective.loss} is of counts, which are neither shifted nor scaled"
    if recipe.data.scaling != "none":
        raise UserError(f"{given} before a model reads them; set data.scaling=none.")
    if recipe.model.normalisation not in ("none", "mean"):
        raise UserError(
            f"{given} by model.normalisation={recipe.model.normalisation}; set model.normalisation=mean, by which their mean "
            "alone is divided."
        )


def _scaling(train: SeriesTable, ends: Sequence[int], recipe: Recipe) -> Scaling:
    """Measure the scale of training's rows; where counts are forecast, refuse what is none."""
    distribution = recipe.objective.distribution
    for series in train.series if distribution is not None and distribution.counts else ():
        x_TC = series.values_TC
        wrong = np.argwhere((x_TC < 0) | (x_TC != np.floor(x_TC)))
        if len(wrong):
            row, channel = wrong[0]
            raise UserError(
                f"objective.loss={recipe.objective.loss} is of counts, 0, 1, 2, ..., and {train.channels[channel]} is "
                f"{x_TC[row, channel]:g} in row {row + 1:,}; set objective.loss=student_t or normal, or leave the column out "
                "by data.columns."
            )
    return Scaling.of(train, ends, recipe.data.season, plain=recipe.data.scaling == "none")


def _told(
    train: SeriesTable, made: Mapping[str, Windows], scaling: Scaling, test: TestSeries | None, recipe: Recipe
) -> list[str]:
    rows = sum(map(len, train.series))
    series = f"{len(train.series):,} series, " if len(train.series) > 1 else ""
    known = f", {len(train.known)} known in advance" if train.known else ""
    static = f", {len(train.static)} static" if train.static else ""
    lines = [f"data: {series}{rows:,} rows, {len(train.channels)} channels{known}{static}"]
    lines += [f"{split}: {len(windows):,} windows" for split, windows in made.items()]
    if test is not None:
        found = make_windows(test.table, scaling, test.spans, recipe.model.lookback, recipe.model.horizon)
        lines.append(f"test: {len(found):,} windows")
    values_TC = np.concatenate([one.values_TC for one in train.series])
    still = [name for name, x in zip(train.channels, values_TC.T) if (x == x[0]).all()]
    lines += [f"  {name} has one value in all rows; it is forecast all the same" for name in still[:3]]
    return lines + [f"  {note}" for note in train.notes]


def parts(run: Run, recipe: Recipe, tokens: int) -> Part:
    """Count a run's model with the channels of its data."""
    scaling = Scaling.load(run.folder / SCALING)
    return count_model(recipe.model, tokens, vocabulary=0, heads=heads_of(recipe, scaling))


def together(recipe: Recipe, channels: int) -> int:
    """Return how many windows are forecast together outside training."""
    c = recipe.model
    return max(1, min(1024, TOGETHER // (channels * (c.lookback + c.horizon) * 8)))


@dataclass(frozen=True, kw_only=True)
class ForecastData(Prepared):
    """Windows of series, split by time."""

    scaling: Scaling
    train: Windows
    valid: Windows
    test: TestSeries | None = None
    unit = "windows"
    examples = "windows"

    @property
    def vocabularies(self) -> Mapping[str, Vocabulary]:
        return {SCALING: self.scaling}

    @property
    def heads(self) -> Heads:
        return heads_of(self.recipe, self.scaling)

    def build(self, seed: int) -> nn.Module:
        model: nn.Module = build_model(self.recipe.model, seed, vocabulary=0, heads=self.heads)
        return model

    def source(self, *, packed: bool) -> WindowBatches:
        train = self.recipe.train
        return WindowBatches(self.train, min(len(self.train), train.examples_per_batch or BATCH), train.seed)

    def valid_batches(self) -> Any:
        return list(self.valid.in_order(together(self.recipe, len(self.scaling))))

    def measure(self, model: nn.Module, objective: Objective, batches: Any) -> Measured:
        return Measured(mean_losses(losses_of(model, objective, batches)))

    def report(self, model: nn.Module, measured: Measured) -> Validation:
        return Validation(measured.means, [])

    def example(self) -> tuple[Part, int]:
        """Count the model for one window."""
        return count_model(self.recipe.model, 1, vocabulary=0, heads=self.heads), 1

    def fingerprints(self) -> dict[str, str]:
        """Return hashes of the data and of its scale."""
        means = hashlib.sha256(repr(self.scaling).encode()).hexdigest()
        return {"train": f"{self.train.digest()}:{means}", "valid": self.valid.digest()}
