"""Parts of models that forecast time series: normalisation of a window, decomposition, patches, and scores that layers hand on.

Dims: B batch, L look-back, C channels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor

from regard.core.config import Bounds, Count

Normalisation = Literal["none", "last", "standard", "mean"]
Lookback = Annotated[int, Bounds(2)]


@dataclass(frozen=True, kw_only=True)
class ForecastSettings:
    """Settings that every family of forecasting has."""

    lookback: Lookback = 96  # times that are read
    horizon: Count = 24  # times that are forecast
    normalisation: Normalisation = "standard"
    """Of each window: less its last value; less its mean and divided by its deviation; or divided by its mean absolute value."""


def random_window(lookback: int, channels: int, batch: int) -> Tensor:
    """Return a random past_BLC; on the meta device, a shape alone."""
    if torch.get_default_device().type == "meta":
        return torch.empty(batch, lookback, channels)
    return torch.randn(batch, lookback, channels)
