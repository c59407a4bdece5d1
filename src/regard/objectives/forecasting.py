"""Forecasting: the mean error over a window's horizon and channels, on scaled values.

    mse         (y - f)^2
    mae         |y - f|
    quantile    2 max(q (y - f_q), (q - 1) (y - f_q)), the mean over quantiles q: twice the pinball loss (Koenker & Bassett 1978)
    normal, student_t, negative_binomial    -log p(y), with the parameters of p forecast (model/series/distributions.py)

The mean of twice the pinball loss over many quantiles approaches CRPS, and for q = 0.5 it is the absolute error. A quantile of a
distribution needs no training, so `objective.quantiles` may be changed after it. The forecast itself is the median wherever there
are quantiles.

Dims: B batch, H horizon, C channels, Q quantiles, P parameters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from regard.core.config import check_bounds
from regard.core.errors import UserError
from regard.data.batching.series import SeriesBatch
from regard.model.series.distributions import DISTRIBUTIONS, Distribution
from regard.objectives.base import Loss

MEDIAN = 0.5
INTERVAL = (0.1, MEDIAN, 0.9)  # of a distribution, where objective.quantiles is not given


@dataclass(frozen=True, kw_only=True)
class ForecastingConfig:
    name: Literal["forecasting"] = "forecasting"
    loss: Literal["mse", "mae", "quantile", "normal", "student_t", "negative_binomial"] = "mse"
    quantiles: tuple[float, ...] = ()  # of objective.loss=quantile or a distribution, such as 0.1,0.5,0.9
    passes = 1

    def __post_init__(self) -> None:
        check_bounds(self, "objective.")
        if (self.loss == "quantile" and not self.quantiles) or (self.loss in ("mse", "mae") and self.quantiles):
            raise UserError(
                "objective.quantiles and objective.loss=quantile belong together; give both, such as "
                "objective.quantiles=0.1,0.5,0.9, "
                "or none of them; or forecast a distribution, such as objective.loss=student_t, which has all quantiles."
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

    @property
    def distribution(self) -> Distribution | None:
        return DISTRIBUTIONS.get(self.loss)

    @property
    def levels(self) -> tuple[float, ...]:
        """Return the quantiles that a forecast has; none of a forecast of one number."""
        return self.quantiles or (INTERVAL if self.distribution else ())

    @property
    def heads(self) -> dict[str, Any]:
        """Return what the heads of a model need: a number of quantiles, or the name of a distribution."""
        return {"distribution": self.loss} if self.distribution else {"quantiles": len(self.quantiles)}


def quantiles_of(found: Tensor, config: ForecastingConfig) -> Tensor | None:
    """Return quantiles_BHCQ of what a model wrote, in order where they cross; None of a forecast of one number."""
    if config.distribution is not None:
        return torch.stack([config.distribution.quantile(found, q) for q in config.levels], -1)
    return found.sort(-1).values if config.quantiles else None


def point(found: Tensor, config: ForecastingConfig) -> Tensor:
    """Return future_BHC: the forecast, of quantiles and distributions the median."""
    if config.distribution is not None:
        return config.distribution.quantile(found, MEDIAN)
    return found[..., config.quantiles.index(MEDIAN)] if config.quantiles else found


def crps(found: Tensor, future_BHC: Tensor, config: ForecastingConfig) -> Tensor:
    """Return CRPS_BHC: of a distribution exactly, of quantiles the mean of their losses, of one number its absolute error."""
    if config.distribution is not None:
        return config.distribution.crps(found, future_BHC)
    if config.quantiles:
        return pinball(found, future_BHC, config.quantiles).mean(-1)
    return (found - future_BHC).abs()


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
        future_BHC = window.future_BHC
        given = {"future_BHC": future_BHC} if getattr(model, "teacher_forced", False) else {}
        found = model(*window.given, **given).float()
        if c.distribution is not None:
            each = c.distribution.nll(found, future_BHC)
        elif c.quantiles:
            each = pinball(found, future_BHC, c.quantiles)
        else:
            each = (found - future_BHC).square() if c.loss == "mse" else (found - future_BHC).abs()
        total = each.flatten(1).mean(1).sum()
        if model.training:
            return Loss(total, {}, batch.tokens)
        error_BN = (point(found, c) - future_BHC).flatten(1)
        return Loss(
            total, {"nll": total, "mse": error_BN.square().mean(1).sum(), "mae": error_BN.abs().mean(1).sum()}, batch.tokens
        )
