"""iTransformer: each variable is a token, its whole past one vector, and attention runs between variables.

Liu et al. 2024, "iTransformer: inverted Transformers are effective for time series forecasting".

    x - mean, / deviation    each window by its own
    token of a channel       W x over the look-back; of a covariate, over look-back and horizon, as it is known in advance;
                             what is constant in a series is embedded and added to the tokens of its channels
    encoder                  post-norm blocks without positions: channels have no order; a norm at the end
    head                     a channel's vector -> the horizon; then the deviation and the mean come back

Differs from the authors' code in: covariates are read over the horizon too, not over the look-back alone.

Dims: B batch, L look-back, H horizon, M = L + H, C channels, E covariates, S static numbers, D width, Q numbers for each value.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import torch
from torch import Tensor, nn

from regard.core.config import Count
from regard.core.errors import UserError
from regard.families.base import Family, Sizes
from regard.model.block import BodyConfig, Stack
from regard.model.init import initialise
from regard.model.layers import Activation, Linear, Norm
from regard.model.series import ForecastSettings, random_window
from regard.model.series.outputs import ForecastOutput
from regard.model.series.parts import InstanceNorm, with_fast_dropout
from regard.model.visibility.parse import parse_visibility


@dataclass(frozen=True, kw_only=True)
class ITransformerConfig(BodyConfig, ForecastSettings):
    family: Literal["itransformer"] = "itransformer"
    width: Count = 128
    heads: Count = 8
    layers: Count = 2
    feedforward: Count = 128
    activation: Activation = "gelu"
    dropout: float = 0.1
    position: str = "none"

    packable = False  # windows lie side by side
    context = None  # any number of channels

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.position != "none":
            raise UserError(f"model.position={self.position} is for tokens in an order, and channels have none; leave it out.")
        if self.maximum_length != BodyConfig.maximum_length:
            raise UserError(f"model.maximum_length={self.maximum_length} is for texts; series have model.lookback.")


class ITransformer(nn.Module):
    tokens_are = MappingProxyType({"encoder": "channels"})

    def __init__(self, config: ITransformerConfig, sizes: Sizes, seed: int = 0) -> None:
        super().__init__()
        c = config
        self.output = ForecastOutput(sizes.heads.quantiles, sizes.heads.distribution)
        self.config, self.visibility = c, parse_visibility(c.visibility)
        self.normalise = InstanceNorm(c.normalisation)
        self.embed = Linear(c.lookback, c.width)
        self.embed_known = Linear(c.lookback + c.horizon, c.width) if sizes.heads.covariates else None
        self.embed_static = Linear(sizes.heads.statics, c.width, bias=False) if sizes.heads.statics else None
        self.dropout = nn.Dropout(c.dropout)
        self.encoder = Stack(c, c.layers, "encoder")
        self.norm = Norm(c.width, eps=c.norm_epsilon) if c.norm_placement == "post" else None
        self.head = Linear(c.width, c.horizon * max(1, self.output.numbers))
        with_fast_dropout(self)
        initialise(self, seed)

    def forward(self, past_BLC: Tensor, known_BME: Tensor | None = None, static_BS: Tensor | None = None) -> Tensor:
        x_BLC, level = self.normalise(past_BLC)
        x_BTD = self.embed(x_BLC.transpose(1, 2))
        if self.embed_static is not None and static_BS is not None:
            x_BTD = x_BTD + self.embed_static(static_BS)[:, None]
        if self.embed_known is not None and known_BME is not None:
            x_BTD = torch.cat([x_BTD, self.embed_known(known_BME.transpose(1, 2))], 1)
        batch, tokens, _ = x_BTD.shape
        view = self.visibility.over(tokens, tokens, batch=batch, device=x_BTD.device, mask=self.config.compares)
        x_BTD = self.encoder(self.dropout(x_BTD), view)
        x_BCD = x_BTD[:, : past_BLC.shape[-1]]
        y_BCN = self.head(x_BCD if self.norm is None else self.norm(x_BCD))
        return self.output.in_units(self.output.of_channels(y_BCN, self.config.horizon), self.normalise, level)


def window_inputs(config: ITransformerConfig, sizes: Sizes, batch: int, length: int, source: int) -> tuple[Tensor | None, ...]:
    """Return (past_BLC,), known_BME where there are covariates, and static_BS where there are static numbers."""
    heads, past_BLC = sizes.heads, random_window(config.lookback, max(1, sizes.heads.channels), batch)
    known_BME = random_window(config.lookback + config.horizon, heads.covariates, batch) if heads.covariates else None
    if heads.statics:
        return past_BLC, known_BME, random_window(1, heads.statics, batch)[:, 0]
    return (past_BLC,) if known_BME is None else (past_BLC, known_BME)


FAMILY = Family(
    name="itransformer",
    config=ITransformerConfig,
    build=ITransformer,
    inputs=window_inputs,
    capabilities=frozenset({"forecasting", "covariates", "static_covariates", "attention", "blocks"}),
)
