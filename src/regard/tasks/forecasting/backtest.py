"""The data of a backtest: forecasts of the last windows of a test, end to end, and errors by the number of steps ahead.

Dims: B windows, L look-back, H horizon, C channels, Q quantiles.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Any, Protocol

import numpy as np
import torch

from regard.data.batching.series import Scaling, make_windows
from regard.lens.plots.backtest import MOST_PANELS, Rolling, Segment, Steps
from regard.metrics.forecasting import ForecastScores
from regard.objectives.forecasting import MEDIAN, quantiles_of
from regard.runs.recipe import Recipe
from regard.tasks.forecasting.prepare import TestSeries

TIMES = 192  # that are drawn, about
FEWEST, MOST = 3, 64  # forecasts of a series


class Forecaster(Protocol):
    """The parts of a trained forecaster that a backtest uses."""

    model: Any
    scaling: Scaling
    recipe: Recipe

    @property
    def device(self) -> torch.device: ...


@torch.no_grad()
def rolling(answers: Forecaster, test: TestSeries) -> list[Rolling]:
    """Forecast the last times of each series, a horizon after the other, for as many channels as are drawn."""
    c, objective, scaling = answers.recipe.model, answers.recipe.objective, answers.scaling
    found = list[Rolling]()
    for one, (begin, end) in islice(zip(test.table.series, test.spans), MOST_PANELS):
        first = max(begin, c.lookback)
        count = min((end - first) // c.horizon, max(FEWEST, min(MOST, TIMES // c.horizon)))
        if not count:
            continue
        start = end - count * c.horizon
        table = replace(test.table, series=(one,))
        windows = make_windows(table, scaling, [(start, end)], c.lookback, c.horizon, stride=c.horizon)
        window = windows.batch(np.arange(len(windows))).to(answers.device).window()
        written = answers.model(*window.given).float().cpu()
        quantiles = quantiles_of(written, objective)
        middle = written if quantiles is None else quantiles[..., objective.levels.index(MEDIAN)]
        middle_BHC = scaling.units(middle.numpy())
        outer = None if quantiles is None else tuple(scaling.units(quantiles[..., n].numpy()) for n in (0, -1))
        before = max(0, start - c.horizon)
        for n, name in enumerate(test.table.channels):
            segments = [
                Segment(
                    start - before + b * c.horizon,
                    middle_BHC[b, :, n],
                    None if outer is None else (outer[0][b, :, n], outer[1][b, :, n]),
                )
                for b in range(count)
            ]
            dates = None if one.dates is None else one.dates[before:end]
            found.append(Rolling(f"{one.name} {name}".strip(), one.values_TC[before:end, n], dates, segments))
    return found


def steps_of(scores: ForecastScores) -> Steps:
    """Return the absolute error of each forecast by the number of steps ahead, and the model's coverage."""
    levels = scores.objective.levels
    return Steps(
        {name: np.array(errors.absolutes_by_step()) for name, errors in scores.errors.items()},
        np.array(scores.errors["model"].coverage_by_step()) if levels else None,
        levels[-1] - levels[0] if levels else 0.0,
        scores.windows,
    )
