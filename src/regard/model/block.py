"""The block of the whole family: look (self-attention), look back (cross-attention, in decoders), think (feed-forward).

Vaswani et al. 2017, section 3.1. An encoder block has no cross-attention; a decoder's visibility is causal; nothing else differs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from regard.core.errors import UserError
from regard.model.attention import Attention, KeysValues
from regard.model.feedforward import Activation, FeedForward
from regard.model.mixers import CONVOLUTION, CYCLE, FEATURES, KERNEL_WIDTH, MIXERS, SCORES, check_mixer
from regard.model.mixers.causal_scan import Sums
from regard.model.mixers.convolution import Convolution
from regard.model.norm import Norm
from regard.model.pruning import kept_heads, parse_pruned
from regard.model.state.kv_cache import Cache
from regard.model.visibility import View


@dataclass(frozen=True, kw_only=True)
class BlockConfig:
    width: int = 512
    heads: int = 8
    feedforward: int = 2048
    dropout: float = 0.1
    attention_dropout: float = 0.0
    activation: Activation = "relu"
    norm: Literal["pre", "post"] = "post"
    norm_epsilon: float = 1e-5
    mixer: str = "softmax"
    features: int = 0  # of favor; 0: 256
    redraw_every: int = 0  # steps of training, of favor; 0: never
    kernel_width: int = 0  # of conv; 0: 7
    dilation: int = 0  # of conv: how many times as far apart neighbours are as in the layer below; 0: once
    pruned: tuple[str, ...] = ()  # heads that are gone, such as encoder.0.self:1+3

    def __post_init__(self) -> None:
        for key in ("width", "heads", "feedforward"):
            if getattr(self, key) < 1:
                raise UserError(f"model.{key}={getattr(self, key)} must be at least 1.")
        if self.width % self.heads:
            raise UserError(
                f"model.width={self.width} does not divide by model.heads={self.heads}; "
                f"the nearest width that does is {max(1, round(self.width / self.heads)) * self.heads}."
            )
        for key in ("dropout", "attention_dropout"):
            if not 0 <= getattr(self, key) < 1:
                raise UserError(f"model.{key}={getattr(self, key)} must be at least 0 and less than 1.")
        if not 0 < self.norm_epsilon < 1:
            raise UserError(f"model.norm_epsilon={self.norm_epsilon} must be between 0 and 1, such as 1e-5.")
        parse_pruned(self.pruned, self.heads)
        check_mixer(self)

    @property
    def head_width(self) -> int:
        return self.width // self.heads

    @property
    def compares(self) -> bool:
        """Queries with keys, so that a mask may be needed?"""
        return self.mixer in SCORES

    @property
    def feature_count(self) -> int:
        return self.features or FEATURES

    def apart(self, layer: int) -> int:
        """How far the neighbours of a convolution are from each other: in each layer further, then anew, as in ByteNet."""
        return max(1, self.dilation) ** (layer % CYCLE)


class Residual(nn.Module):
    """x + f(norm x), or norm(x + f x): the one expression that differs between GPT-2 and the 2017 paper."""

    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        self.norm = Norm(config.width, eps=config.norm_epsilon)
        self.dropout = nn.Dropout(config.dropout)
        self.pre = config.norm == "pre"

    def forward(self, x_BLD: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        if self.pre:
            return x_BLD + self.dropout(sublayer(self.norm(x_BLD)))
        return self.norm(x_BLD + self.dropout(sublayer(x_BLD)))


class Block(nn.Module):
    def __init__(self, config: BlockConfig, name: str, cross: bool, layer: int = 0) -> None:
        super().__init__()
        self.look = Residual(config)
        self.self_attention = (
            self._convolution(config, f"{name}.self", layer)
            if config.mixer == CONVOLUTION
            else self._attention(config, f"{name}.self", cross=False)
        )
        self.look_back = Residual(config) if cross else None
        self.cross_attention = self._attention(config, f"{name}.cross", cross=True) if cross else None
        self.think = Residual(config)
        self.feedforward = FeedForward(config.width, config.feedforward, config.activation)

    @staticmethod
    def _attention(config: BlockConfig, name: str, cross: bool) -> Attention:
        c, heads = config, len(kept_heads(config, name))
        build = MIXERS["softmax" if c.mixer == CONVOLUTION else c.mixer]  # a convolution cannot look back at a source
        mixer, dropout = build(c, name), c.attention_dropout
        return Attention(c.width, heads, mixer=mixer, dropout=dropout, name=name, cross=cross, head_width=c.head_width)

    @staticmethod
    def _convolution(config: BlockConfig, name: str, layer: int) -> Convolution:
        c = config
        return Convolution(c.width, c.heads, kernel_width=c.kernel_width or KERNEL_WIDTH, dilation=c.apart(layer), name=name)

    def forward(
        self,
        x_BLD: Tensor,
        view: View,
        memory: KeysValues | Sums | None = None,
        memory_view: View | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        x_BLD = self.look(x_BLD, lambda h: self.self_attention(h, view, cache=cache))
        if self.look_back is not None and self.cross_attention is not None:
            cross = self.cross_attention
            x_BLD = self.look_back(x_BLD, lambda h: cross(h, memory_view, memory))
        return self.think(x_BLD, self.feedforward)
