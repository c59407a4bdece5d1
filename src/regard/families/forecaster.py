"""The encoder-decoder Transformer of 2017 for numbers: it reads a window of a series as it reads a sentence.

Vaswani et al. 2017, with a linear layer where the paper has embeddings, and one where it has a softmax.

    x - mean, / deviation    each window by its own
    encoder                  a token a time: W x_t (+ W_e of what is known of that time) + position
    decoder                  a token for each future time: one learned vector (+ W_e of what is known) + position, which reads the
                             encoder; the times of the horizon see each other
    static                   what is constant in a series is embedded and added to every token
    head                     the numbers of all channels; then the deviation and the mean come back

Differs from the paper in: the whole future is written in one pass, not step by step, so that errors do not add up on the way
(Zhou et al. 2021, section 3.3); so the decoder is not causal.

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
from regard.families.itransformer import window_inputs
from regard.model.block import BodyConfig, Stack
from regard.model.embedding import InputPositions
from regard.model.init import initialise
from regard.model.layers import Linear
from regard.model.position import attention_position
from regard.model.series import ForecastSettings
from regard.model.series.outputs import ForecastOutput
from regard.model.series.parts import InstanceNorm
from regard.model.visibility import View, Visibility, full
from regard.model.visibility.parse import parse_visibility


@dataclass(frozen=True, kw_only=True)
class ForecasterConfig(BodyConfig, ForecastSettings):
    family: Literal["forecaster"] = "forecaster"
    width: Count = 64
    heads: Count = 4
    layers: Count = 2
    feedforward: Count = 128

    packable = False  # windows lie side by side

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.position == "learned" and self.lookback + self.horizon > self.maximum_length:
            raise UserError(
                f"model.lookback={self.lookback} and model.horizon={self.horizon} are more times than model.maximum_length="
                f"{self.maximum_length} learned positions; raise that, or set model.position=sinusoidal."
            )

    @property
    def attentions(self) -> list[str]:
        encoder = [f"encoder.{n}.self" for n in range(self.layers)]
        return encoder + [f"decoder.{n}.{kind}" for n in range(self.layers) for kind in ("self", "cross")]

    @property
    def depth(self) -> tuple[int, int]:
        return self.layers, self.layers


class Forecaster(nn.Module):
    tokens_are = MappingProxyType({"encoder": "past", "decoder": "future"})

    def __init__(self, config: ForecasterConfig, sizes: Sizes, seed: int = 0) -> None:
        super().__init__()
        c, self.channels = config, max(1, sizes.heads.channels)
        self.output = ForecastOutput(sizes.heads.quantiles, sizes.heads.distribution)
        self.config, self.visibility = c, parse_visibility(c.visibility)
        self.normalise = InstanceNorm(c.normalisation)
        self.embed = Linear(self.channels, c.width)
        self.embed_known = Linear(sizes.heads.covariates, c.width) if sizes.heads.covariates else None
        self.embed_static = Linear(sizes.heads.statics, c.width, bias=False) if sizes.heads.statics else None
        self.asked = nn.Embedding(1, c.width)  # what stands for a value that is to be forecast
        self.positions = InputPositions(c.position, c.width, c.maximum_length)
        self.dropout = nn.Dropout(c.dropout)
        self.encoder = Stack(c, c.layers, "encoder", position=attention_position(c, c.layers, causal=False))
        self.decoder = Stack(c, c.layers, "decoder", cross=True, position=attention_position(c, c.layers, causal=False))
        self.head = Linear(c.width, self.channels * max(1, self.output.numbers))
        initialise(self, seed)

    def forward(self, past_BLC: Tensor, known_BME: Tensor | None = None, static_BS: Tensor | None = None) -> Tensor:
        c, (batch, lookback, _) = self.config, past_BLC.shape
        x_BLC, level = self.normalise(past_BLC)
        given_BLD, asked_BHD = self.embed(x_BLC), self.asked.weight[0].expand(batch, c.horizon, -1)
        x_BMD = torch.cat([given_BLD, asked_BHD.to(given_BLD.dtype)], 1)
        if self.embed_known is not None and known_BME is not None:
            x_BMD = x_BMD + self.embed_known(known_BME)
        if self.embed_static is not None and static_BS is not None:
            x_BMD = x_BMD + self.embed_static(static_BS)[:, None]
        where_MD = self.positions.embed(torch.arange(x_BMD.shape[1], device=x_BMD.device))
        x_BMD = self.dropout(x_BMD if where_MD is None else x_BMD + where_MD.to(x_BMD.dtype))
        read_BLD, write_BHD = x_BMD[:, :lookback], x_BMD[:, lookback:]

        def view(seen: Visibility, queries: int, keys: int) -> View:
            return seen.over(queries, keys, batch=batch, device=past_BLC.device, mask=c.compares)

        memory_BLD = self.encoder(read_BLD, view(self.visibility, lookback, lookback))
        memories, reads = self.decoder.project_kv(memory_BLD), view(full, c.horizon, lookback)
        y_BHN = self.head(self.decoder(write_BHD, view(self.visibility, c.horizon, c.horizon), memories, reads))
        return self.output.in_units(self.output.of_times(y_BHN, self.channels), self.normalise, level)


FAMILY = Family(
    name="forecaster",
    config=ForecasterConfig,
    build=Forecaster,
    inputs=window_inputs,
    capabilities=frozenset({"forecasting", "covariates", "static_covariates", "attention", "blocks"}),
)
