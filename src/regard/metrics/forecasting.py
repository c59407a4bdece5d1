"""Scores of forecasts over all windows of a test, and the simple forecasts that a model has to beat.

    MSE, MAE    of scaled values, as published tables have them: over every window, time and channel
    MAE         in units, of each channel; MASE (Hyndman & Koehler 2006): divided by the error that the seasonal naive forecast
                makes one season ahead in training, the mean over channels
    coverage    the share of the values between the outer quantiles
    CRPS        the continuous ranked probability score (Matheson & Winkler 1976) of scaled values: exact for a distribution; for
                quantiles approximated by the mean of twice their pinball losses; for one number its absolute error
    wQL         weighted quantile loss (Salinas et al. 2020): for each channel and quantile the sum of twice the pinball loss,
                divided by the sum of absolute values in units; the mean over both

    naive       the last value, repeated           linear    DLinear's functions, fitted to training by least squares
    seasonal    the last season, repeated          nlinear   the same of differences to the last value

A linear layer over a window and its moving average is a linear function of the window, and so is NLinear: the best ones solve a
system of L + 1 equations, summed over all training windows and channels, with a little of RIDGE.

Dims: B batch, L look-back, H horizon, C channels, N windows, Q quantiles, X = L + 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import mean
from typing import Any

import torch
from torch import Tensor

from regard.data.batching.series import SeriesBatch, Windows
from regard.objectives.forecasting import ForecastingConfig, crps, pinball, point, quantiles_of

RIDGE = 1e-3  # of the mean square of an input
CHUNK = 256  # windows at a time
POINT = ForecastingConfig()  # of forecasts of one number
Forecast = Callable[[Tensor], Tensor]  # past_BLC -> future_BHC


def naive(past_BLC: Tensor, horizon: int) -> Tensor:
    return past_BLC[:, -1:].expand(-1, horizon, -1)


def seasonal(past_BLC: Tensor, horizon: int, season: int) -> Tensor:
    """Return the last season again and again; of a season longer than the window, as much of it as there is."""
    season = min(season, past_BLC.shape[1])
    at_H = past_BLC.shape[1] - season + torch.arange(horizon, device=past_BLC.device) % season
    return past_BLC[:, at_H]


def fit_linear(windows: Windows, *, last: bool) -> Forecast:
    """Fit one linear map of all channels by least squares; with `last`, of what is less the last value."""
    inputs, outputs = windows.lookback + (not last), windows.horizon
    gram_XX, cross_XH = torch.zeros(inputs, inputs, dtype=torch.float64), torch.zeros(inputs, outputs, dtype=torch.float64)
    count = 0
    for batch in windows.in_order(CHUNK):
        x_NX, y_NH = _pairs(*batch.window()[:2], last)
        gram_XX += (x_NX.T @ x_NX).double()
        cross_XH += (x_NX.T @ y_NH).double()
        count += len(x_NX)
    gram_XX += RIDGE * gram_XX.diagonal().mean() * torch.eye(inputs, dtype=torch.float64)
    map_XH = torch.linalg.solve(gram_XX, cross_XH).float()

    def forecast(past_BLC: Tensor) -> Tensor:
        x_NX, _ = _pairs(past_BLC, past_BLC[:, :0], last)
        y_BHC = (x_NX @ map_XH.to(past_BLC.device)).view(len(past_BLC), past_BLC.shape[2], -1).transpose(1, 2)
        return y_BHC + past_BLC[:, -1:] if last else y_BHC

    return forecast


def _pairs(past_BLC: Tensor, future_BHC: Tensor, last: bool) -> tuple[Tensor, Tensor]:
    """Return a row for each window and channel: the past with a 1, or less its last value; and the future."""
    level_B1C = past_BLC[:, -1:]
    if last:
        past_BLC, future_BHC = past_BLC - level_B1C, future_BHC - level_B1C
    x_NL, y_NH = (x.transpose(1, 2).flatten(0, 1) for x in (past_BLC, future_BHC))
    return (x_NL if last else torch.cat([x_NL, torch.ones_like(x_NL[:, :1])], 1)), y_NH


@dataclass
class Errors:
    """Sums of a forecast's errors, by step ahead and channel."""

    squared_HC: Tensor | float = 0.0
    absolute_HC: Tensor | float = 0.0
    windows: int = 0
    covered_H: Tensor | float = 0.0  # the mean over channels
    crps: float = 0.0
    pinball_CQ: Tensor | float = 0.0
    size_C: Tensor | float = 0.0  # of the values, as far from zero_C

    def add(self, found: Tensor, future_BHC: Tensor, objective: ForecastingConfig, zero_C: Tensor) -> None:
        error_BHC = (point(found, objective) - future_BHC).double()
        self.squared_HC = self.squared_HC + error_BHC.square().sum(0)
        self.absolute_HC = self.absolute_HC + error_BHC.abs().sum(0)
        self.windows += len(error_BHC)
        self.crps += crps(found, future_BHC, objective).double().mean((1, 2)).sum().item()
        quantiles_BHCQ = quantiles_of(found, objective)
        if quantiles_BHCQ is not None:
            inside = (future_BHC >= quantiles_BHCQ[..., 0]) & (future_BHC <= quantiles_BHCQ[..., -1])
            self.covered_H = self.covered_H + inside.double().mean(-1).sum(0)
            losses_BHCQ = pinball(quantiles_BHCQ, future_BHC, objective.levels).double()
            self.pinball_CQ = self.pinball_CQ + losses_BHCQ.sum((0, 1))
            self.size_C = self.size_C + (future_BHC - zero_C).abs().double().sum((0, 1))

    def squares(self) -> list[float]:
        found: list[float] = (torch.as_tensor(self.squared_HC) / self.windows).mean(0).tolist()
        return found

    def absolutes(self) -> list[float]:
        found: list[float] = (torch.as_tensor(self.absolute_HC) / self.windows).mean(0).tolist()
        return found

    def absolutes_by_step(self) -> list[float]:
        found: list[float] = (torch.as_tensor(self.absolute_HC) / self.windows).mean(1).tolist()
        return found

    def coverage_by_step(self) -> list[float]:
        found: list[float] = (torch.as_tensor(self.covered_H) / self.windows).tolist()
        return found


@dataclass(frozen=True)
class ForecastScores:
    """Scores of a model and of simple forecasts of the same windows."""

    errors: dict[str, Errors]  # "model" first
    windows: int
    channels: tuple[str, ...]
    deviation: tuple[float, ...]
    season_error: tuple[float, ...]
    objective: ForecastingConfig = POINT
    scaled: bool = True
    best: tuple[float, ...] = ()  # the least squared error that is possible, scaled, of each channel; empty where it is not known
    outputs: list[str] = field(default_factory=list)

    def table(self) -> dict[str, dict[str, float]]:
        """Return mse, mae and mase of each forecast."""
        return {name: self._of(found) for name, found in self.errors.items()}

    def _of(self, found: Errors) -> dict[str, float]:
        mae_C = found.absolutes()
        scaled = [mae * unit / error for mae, unit, error in zip(mae_C, self.deviation, self.season_error) if error > 0]
        both = {"mse": sum(found.squares()) / len(mae_C), "mae": sum(mae_C) / len(mae_C)}
        return both | ({"mase": sum(scaled) / len(scaled)} if scaled else {})  # none where training has not two seasons

    def of_quantiles(self) -> dict[str, float]:
        """Return coverage, crps and wql of the model."""
        model = self.errors["model"]
        size_C = torch.as_tensor(model.size_C)
        losses_CQ = torch.as_tensor(model.pinball_CQ)[size_C > 0] / size_C[size_C > 0, None]
        return {
            "coverage": mean(model.coverage_by_step()),
            "crps": model.crps / model.windows,
            "wql": losses_CQ.mean().item() if len(losses_CQ) else float("nan"),
        }

    def lines(self) -> list[str]:
        scale = "values scaled by training's mean and deviation" if self.scaled else "values as they are, not scaled"
        told = [f"{self.windows:,} windows, every one; {scale}"]
        told += [f"{'':<12}{'MSE':>9}{'MAE':>9}{'MASE':>9}"]
        told += [f"{name:<12}" + "".join(f"{score:>9.4f}" for score in row.values()) for name, row in self.table().items()]
        if self.best:
            told += [f"{'possible':<12}{sum(self.best) / len(self.best):>9.4f}   the least that any model could have"]
        if levels := self.objective.levels:
            found, meant = self.of_quantiles(), levels[-1] - levels[0]
            way = "exact" if self.objective.distribution else f"the mean of {len(levels)} quantiles"
            told += [f"coverage    {found['coverage']:.1%} of the values lie between the outer quantiles, {meant:.0%} should"]
            told += [f"CRPS        {found['crps']:.4f} ({way}); that of a single number is its MAE"]
            told += [f"wQL         {found['wql']:.4f} (weighted quantile loss of {', '.join(f'{q:g}' for q in levels)})"]
        units = [mae * unit for mae, unit in zip(self.errors["model"].absolutes(), self.deviation)]
        shown = ", ".join(f"{name} {mae:.4g}" for name, mae in zip(self.channels[:8], units))
        return [*told, f"MAE in units: {shown}{', ...' * (len(units) > 8)}"]

    def as_dict(self) -> dict[str, Any]:
        table, model = self.table(), self.errors["model"]
        units = {name: mae * unit for name, mae, unit in zip(self.channels, model.absolutes(), self.deviation)}
        found: dict[str, Any] = {**table["model"], "windows": self.windows, "mae_units": units}
        found["mae_by_step"] = model.absolutes_by_step()
        found["beside"] = {name: row for name, row in table.items() if name != "model"}
        if self.objective.levels:
            found |= self.of_quantiles()
        return found | ({"best_possible_mse": sum(self.best) / len(self.best)} if self.best else {})


@torch.no_grad()
def measure(
    forecasts: dict[str, Callable[..., Tensor]],
    batches: Iterable[SeriesBatch],
    objective: ForecastingConfig,
    zero_C: Sequence[float] | float = 0.0,
) -> tuple[dict[str, Errors], int]:
    """Return the errors of each forecast over all windows; "model" reads covariates too, and writes what its objective says.

    `zero_C` is what 0 in units is on the scale of each channel.
    """
    errors, windows = {name: Errors() for name in forecasts}, 0
    for batch in batches:
        window = batch.window()
        zero = torch.tensor(zero_C, device=window.past_BLC.device)
        for name, forecast in forecasts.items():
            found = forecast(*window.given) if name == "model" else forecast(window.past_BLC)
            errors[name].add(found.float(), window.future_BHC, objective if name == "model" else POINT, zero)
        windows += len(window.past_BLC)
    return errors, windows


def baselines(fit: Windows | None, lookback: int, horizon: int, season: int) -> Iterator[tuple[str, Forecast]]:
    """Yield simple forecasts by name; those that are fitted, where there is something to fit them to."""
    yield "naive", lambda past_BLC: naive(past_BLC, horizon)
    yield "seasonal", lambda past_BLC: seasonal(past_BLC, horizon, season)
    if fit is not None and len(fit):
        yield "linear", fit_linear(fit, last=False)
        yield "nlinear", fit_linear(fit, last=True)
