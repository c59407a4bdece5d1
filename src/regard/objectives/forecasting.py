"""Forecasting: the mean error over a window's horizon and channels, on scaled values.

    mse         (y - f)^2
    mae         |y - f|
    quantile    2 max(q (y - f_q), (q - 1) (y - f_q)), the mean over quantiles q: twice the pinball loss (Koenker & Bassett 1978)

The mean of twice the pinball loss over many quantiles approaches CRPS, and for q = 0.5 it is the absolute error.

Dims: B batch, H horizon, C channels, Q quantiles.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from regard.core.config import check_bounds
from regard.core.errors import UserError
from regard.data.batching.series import SeriesBatch
from regard.objectives.base import Loss

MEDIAN = 0.5


@dataclass(frozen=True, kw_only=True)
class ForecastingConfig:
    name: Literal["forecasting"] = "forecasting"
    loss: Literal["mse", "mae", "quantile"] = "mse"
    quantiles: tuple[float, ...] = ()  # of objective.loss=quantile, such as 0.1,0.5,0.9
    passes = 1

    def __post_init__(self) -> None:
        check_bounds(self, "objective.")
        if (self.loss == "quantile") != bool(self.quantiles):
            raise UserError(
                "objective.quantiles and objective.loss=quantile belong together; give both, such as "
                "objective.quantiles=0.1,0.5,0.9, "
                "or none of them."
            )
        if wrong := [q for q in self.quantiles if not 0 < q < 1]:
            raise UserError(
                f"objective.quantiles has {wrong[0]:g}, but a quantile lies between 0 and 1; give such as 0.1,0.5,0.9."
            )
        if self.quantiles and (list(self.quantiles) != sorted({*self.quantiles}) or MEDIAN not in self.quantiles):
            raise UserError(
                f"objective.quantiles={','.join(map(str, self.quantiles))} must rise and have 0.5, which is the "
                f"forecast itself; give "
                "such as 0.1,0.5,0.9."
            )


def point(forecast: Tensor, quantiles: tuple[float, ...]) -> Tensor:
    """Return future_BHC: the forecast, of quantiles the median."""
    return forecast[..., quantiles.index(MEDIAN)] if quantiles else forecast


def pinball(forecast_BHCQ: Tensor, future_BHC: Tensor, quantiles: tuple[float, ...]) -> Tensor:
    """Return twice the pinball loss_BHCQ."""
    q = torch.tensor(quantiles, device=future_BHC.device)
    error = future_BHC[..., None] - forecast_BHCQ
    return 2 * torch.maximum(q * error, (q - 1) * error)


class ForecastingLoss:
    def __init__(self, config: ForecastingConfig) -> None:
        self.config = config

    def __call__(self, model: Any, batch: SeriesBatch) -> Loss:
        """Return the loss of each window summed; outside training with its squared and absolute error too."""
        c, window = self.config, batch.window()
        found, future_BHC = model(*window.given).float(), window.future_BHC
        middle_BHC = point(found, c.quantiles)
        if c.loss == "quantile":
            each = pinball(found, future_BHC, c.quantiles).flatten(1).mean(1)
        else:
            error_BHC = middle_BHC - future_BHC
            each = (error_BHC.square() if c.loss == "mse" else error_BHC.abs()).flatten(1).mean(1)
        total = each.sum()
        if model.training:
            return Loss(total, {}, batch.tokens)
        error_BN = (middle_BHC - future_BHC).flatten(1)
        return Loss(
            total, {"nll": total, "mse": error_BN.square().mean(1).sum(), "mae": error_BN.abs().mean(1).sum()}, batch.tokens
        )
