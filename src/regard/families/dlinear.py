"""DLinear and NLinear: one linear layer from the past to the future, the baselines that every Transformer has to beat.

Zeng et al. 2023, "Are Transformers effective for time series forecasting?", section 4.

    dlinear    y = W_s (x - trend) + W_t trend,  trend = the mean of `kernel` values around each time
    nlinear    y = W (x - x_L) + x_L             x_L: the last value

All channels share the matrices, or each has its own (`individual`).

Differs from the paper in: nothing that is computed; the start is PyTorch's for linear layers, as in the authors' code.

Dims: B batch, L look-back, H horizon, C channels, Q numbers for each value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from regard.core.config import Bounds, check_bounds
from regard.core.errors import UserError
from regard.families.base import Family, Sizes
from regard.model.series import ForecastSettings, Normalisation, random_window
from regard.model.series.outputs import ForecastOutput
from regard.model.series.parts import InstanceNorm, SeriesLinear, moving_average


@dataclass(frozen=True, kw_only=True)
class DLinearConfig(ForecastSettings):
    family: Literal["dlinear"] = "dlinear"
    kind: Literal["dlinear", "nlinear"] = "dlinear"
    kernel: Annotated[int, Bounds(1)] = 25  # values that the trend is the mean of
    individual: bool = False  # a matrix for each channel
    normalisation: Normalisation = "none"

    packable = False  # windows lie side by side
    context = None
    kept_of_source = carried = 0  # nothing is written step by step
    cell, attends, position = "linear", "", "none"
    dropout = 0.0
    depth = (1, 0)

    def __post_init__(self) -> None:
        check_bounds(self, "model.")
        if self.kind == "nlinear" and self.normalisation != "none":
            raise UserError(
                f"model.normalisation={self.normalisation} is for model.kind=dlinear; nlinear takes the last value away: leave "
                "it out."
            )
        if self.kind == "nlinear" and self.kernel != DLinearConfig.kernel:
            raise UserError(f"model.kernel={self.kernel} is of the trend, which model.kind=nlinear has not; leave it out.")

    @property
    def width(self) -> int:
        return self.horizon

    @property
    def summary(self) -> str:
        return f"{self.kind}, {self.lookback} -> {self.horizon} times, {'a matrix each' if self.individual else 'shared'}"


class DLinear(nn.Module):
    def __init__(self, config: DLinearConfig, sizes: Sizes, seed: int = 0) -> None:
        super().__init__()
        c = config
        self.output, self.config = ForecastOutput(sizes.heads.quantiles, sizes.heads.distribution), c
        outputs, channels = c.horizon * max(1, self.output.numbers), max(1, sizes.heads.channels) if c.individual else 0
        self.normalise = InstanceNorm("last" if c.kind == "nlinear" else c.normalisation)
        self.seasonal = SeriesLinear(c.lookback, outputs, channels)
        self.trend = SeriesLinear(c.lookback, outputs, channels) if c.kind == "dlinear" else None
        generator = torch.Generator().manual_seed(seed)
        for part in (self.seasonal, self.trend):
            if part is not None and not part.weight.is_meta:
                part.draw(generator)

    def forward(self, past_BLC: Tensor) -> Tensor:
        x_BLC, level = self.normalise(past_BLC)
        x_BCL = x_BLC.transpose(1, 2)
        if self.trend is None:
            y_BCN = self.seasonal(x_BCL)
        else:
            trend_BCL = moving_average(x_BCL, self.config.kernel)
            y_BCN = self.seasonal(x_BCL - trend_BCL) + self.trend(trend_BCL)
        return self.output.in_units(self.output.of_channels(y_BCN, self.config.horizon), self.normalise, level)


FAMILY = Family(
    name="dlinear",
    config=DLinearConfig,
    build=DLinear,
    inputs=lambda config, sizes, batch, length, source: (random_window(config.lookback, max(1, sizes.heads.channels), batch),),
    capabilities=frozenset({"forecasting"}),
)
