"""PatchTST: pieces of one channel's past are tokens of an encoder, and a linear layer reads the future off all of them.

Nie et al. 2023, "A time series is worth 64 words". Channels are rows of a batch: they share all weights and never see each other.

    x - mean, / deviation    each window by its own (RevIN)
    patches                  `patch` values every `stride`, the last value repeated for one more; W x + position
    encoder                  post-norm blocks, batch normalisation, each layer adding the scores of the layer below to its own
    head                     all vectors side by side -> the horizon; then the deviation and the mean come back

The defaults are the authors' code, whose tables are published: `residual_scores`, `batch_norm`, `padded`. transformers'
PatchTST is another choice of the same parts: norms before each sublayer, no residual scores, no padding.

Differs from the paper in: attention's output has one dropout, where the authors' code has two in a row.

Dims: B batch, L look-back, H horizon, C channels, N patches, P patch length, D width, Q numbers for each value.
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
from regard.model.embedding import InputPositions
from regard.model.init import initialise
from regard.model.layers import Activation, Linear
from regard.model.position import attention_position
from regard.model.series import ForecastSettings, random_window
from regard.model.series.outputs import ForecastOutput
from regard.model.series.parts import InstanceNorm, TokenBatchNorm, count_patches, cut_patches, with_fast_dropout
from regard.model.series.residual_scores import ResidualScores
from regard.model.visibility.parse import parse_visibility


@dataclass(frozen=True, kw_only=True)
class PatchTSTConfig(BodyConfig, ForecastSettings):
    family: Literal["patchtst"] = "patchtst"
    width: Count = 128
    heads: Count = 16
    layers: Count = 3
    feedforward: Count = 256
    activation: Activation = "gelu"
    dropout: float = 0.2
    activation_dropout: float = 0.2
    position: str = "learned"
    patch: Count = 16  # values of a token
    stride: Count = 8  # values from one patch to the next
    padded: bool = True  # the last value is repeated for one more patch
    pooling: Literal["flatten", "mean"] = "flatten"  # what the head reads: all vectors side by side, or their mean
    batch_norm: bool = True  # in place of layer normalisation
    residual_scores: bool = True  # each layer adds the attention scores of the layer below to its own
    affine: bool = False  # a learned scale and shift of each channel's normalised window

    packable = False  # windows lie side by side

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.patch > self.lookback:
            raise UserError(
                f"model.patch={self.patch} is longer than model.lookback={self.lookback}; give a shorter patch, or a "
                f"longer look-back."
            )
        if self.maximum_length != BodyConfig.maximum_length:
            raise UserError(f"model.maximum_length={self.maximum_length} is for texts; series have model.lookback.")
        if self.residual_scores and (self.mixer != "softmax" or self.position not in ("learned", "sinusoidal", "none")):
            raise UserError(
                "model.residual_scores=true adds to scores, which needs model.mixer=softmax and model.position=learned, "
                "sinusoidal "
                "or none; or set model.residual_scores=false."
            )
        if self.batch_norm and self.norm != "layer":
            raise UserError(f"model.norm={self.norm} does nothing with model.batch_norm=true; leave one of them out.")

    @property
    def context(self) -> int:
        """Return the number of patches."""
        return count_patches(self.lookback, self.patch, self.stride, self.padded)

    @property
    def summary(self) -> str:
        return f"{super().summary}, {self.context} patches of {self.patch}"


class PatchTST(nn.Module):
    tokens_are = MappingProxyType({"encoder": "patches"})

    def __init__(self, config: PatchTSTConfig, sizes: Sizes, seed: int = 0) -> None:
        super().__init__()
        c = config
        self.output = ForecastOutput(sizes.heads.quantiles, sizes.heads.distribution)
        self.config, self.visibility = c, parse_visibility(c.visibility)
        self.normalise = InstanceNorm(c.normalisation, max(1, sizes.heads.channels), c.affine)
        self.embed = Linear(c.patch, c.width)
        self.positions = InputPositions(c.position, c.width, c.context)
        self.dropout = nn.Dropout(c.dropout)
        scheme = ResidualScores() if c.residual_scores else attention_position(c, c.layers, causal=False)
        self.encoder = Stack(c, c.layers, "encoder", position=scheme)
        if c.batch_norm:
            for block in self.encoder.blocks:
                for residual in block.children():
                    residual.norm = TokenBatchNorm(c.width, c.norm_epsilon)
        self.encoder.norm = None  # transformers, which can normalise before each sublayer, has none there either
        tokens = c.context if c.pooling == "flatten" else 1
        self.head = Linear(tokens * c.width, c.horizon * max(1, self.output.numbers))
        with_fast_dropout(self)
        self._initialise(seed)

    def _initialise(self, seed: int) -> None:
        """Draw linear layers as PyTorch does, as the authors' code leaves them, and positions uniformly up to 0.02."""
        if self.embed.weight.is_meta:
            return
        initialise(self, seed)
        generator = torch.Generator().manual_seed(seed)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                most = module.in_features**-0.5
                for parameter in module.parameters():
                    nn.init.uniform_(parameter, -most, most, generator=generator)
            elif isinstance(module, nn.Embedding):
                nn.init.uniform_(module.weight, -0.02, 0.02, generator=generator)

    def forward(self, past_BLC: Tensor) -> Tensor:
        c, (batch, _, channels) = self.config, past_BLC.shape
        x_BLC, level = self.normalise(past_BLC)
        y = self.head(self._pooled(self.hidden(x_BLC)))
        return self.output.in_units(self.output.of_channels(y.view(batch, channels, -1), c.horizon), self.normalise, level)

    def hidden(self, x_BLC: Tensor) -> Tensor:
        """Return vectors of the patches of every channel, a channel a row, in the order of the batch."""
        c = self.config
        patches = cut_patches(x_BLC.transpose(1, 2), c.patch, c.stride, c.padded).flatten(0, 1)
        x_RND = self.embed(patches)
        rows, tokens, _ = x_RND.shape
        where_ND = self.positions.embed(torch.arange(tokens, device=x_RND.device))
        if where_ND is not None:
            x_RND = x_RND + where_ND.to(x_RND.dtype)
        view = self.visibility.over(tokens, tokens, batch=rows, device=x_RND.device, mask=c.compares)
        return self.encoder(self.dropout(x_RND), view)

    def _pooled(self, x_RND: Tensor) -> Tensor:
        return x_RND.flatten(1) if self.config.pooling == "flatten" else x_RND.mean(1)


FAMILY = Family(
    name="patchtst",
    config=PatchTSTConfig,
    build=PatchTST,
    inputs=lambda config, sizes, batch, length, source: (random_window(config.lookback, max(1, sizes.heads.channels), batch),),
    capabilities=frozenset({"forecasting", "attention", "blocks"}),
)
