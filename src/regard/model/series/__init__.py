"""Parts of models that forecast time series: normalisation of a window, decomposition, patches, and scores that layers hand on.

Dims: B batch, L look-back, H horizon, C channels, Q quantiles.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor

from regard.core.config import Bounds, Count

Normalisation = Literal["none", "last", "standard"]
Lookback = Annotated[int, Bounds(2)]


@dataclass(frozen=True, kw_only=True)
class ForecastSettings:
    """Settings that every family of forecasting has."""

    lookback: Lookback = 96  # times that are read
    horizon: Count = 24  # times that are forecast
    normalisation: Normalisation = (
        "standard"  # of each window: less its last value, or less its mean and divided by its deviation
    )


def to_future(y_BCN: Tensor, horizon: int, quantiles: int) -> Tensor:
    """Return future_BHC, or future_BHCQ where there are quantiles, of N = H (Q) outputs for each channel."""
    if not quantiles:
        return y_BCN.transpose(1, 2)
    return y_BCN.unflatten(-1, (horizon, quantiles)).transpose(1, 2)


def random_window(lookback: int, channels: int, batch: int) -> Tensor:
    """Return a random past_BLC; on the meta device, a shape alone."""
    if torch.get_default_device().type == "meta":
        return torch.empty(batch, lookback, channels)
    return torch.randn(batch, lookback, channels)
