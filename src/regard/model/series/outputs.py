"""The output of a forecasting model for each value: one number, quantiles, or the parameters of a distribution.

Dims: B batch, H horizon, C channels, N = H P outputs of a channel, P numbers for each value.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from regard.model.series.distributions import DISTRIBUTIONS
from regard.model.series.parts import InstanceNorm, Level


@dataclass(frozen=True)
class ForecastOutput:
    quantiles: int = 0
    distribution: str = ""  # a name of DISTRIBUTIONS

    @property
    def numbers(self) -> int:
        """Return how many numbers a value has; 0 where it is one, without an axis of its own."""
        return len(DISTRIBUTIONS[self.distribution].names) if self.distribution else self.quantiles

    def of_channels(self, y_BCN: Tensor, horizon: int) -> Tensor:
        """Return raw_BHC, or raw_BHCP, of the outputs of each channel."""
        if not self.numbers:
            return y_BCN.transpose(1, 2)
        return y_BCN.unflatten(-1, (horizon, self.numbers)).transpose(1, 2)

    def of_times(self, y_BHN: Tensor, channels: int) -> Tensor:
        """Return raw_BHC, or raw_BHCP, of the outputs of each time."""
        return y_BHN.unflatten(-1, (channels, -1)) if self.numbers else y_BHN

    def in_units(self, raw: Tensor, normalise: InstanceNorm, level: Level) -> Tensor:
        """Return the forecast in the units of the window: future_BHC, quantiles_BHCP or parameters_BHCP."""
        if not self.distribution:
            return normalise.back(raw, level)
        loc_B1C, scale_B1C = normalise.affine_back(level)
        return DISTRIBUTIONS[self.distribution].parameters(raw, loc_B1C, scale_B1C)
