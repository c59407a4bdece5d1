"""The block of the whole family: look (self-attention), look back (cross-attention, in decoders), think (feed-forward).

Vaswani et al. 2017, section 3.1. An encoder block has no cross-attention; a decoder's visibility is causal; nothing else differs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from regard.errors import UserError
from regard.model.attention import Attention, KeysValues
from regard.model.cache import Cache
from regard.model.feedforward import Activation, FeedForward
from regard.model.mixers import MIXERS
from regard.model.norm import Norm
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
        if self.mixer not in MIXERS:
            raise UserError(f"model.mixer={self.mixer!r} is not known; choose one of: {', '.join(MIXERS)}.")


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
    def __init__(self, config: BlockConfig, name: str, cross: bool) -> None:
        super().__init__()
        self.look = Residual(config)
        self.self_attention = self._attention(config, f"{name}.self", cross=False)
        self.look_back = Residual(config) if cross else None
        self.cross_attention = self._attention(config, f"{name}.cross", cross=True) if cross else None
        self.think = Residual(config)
        self.feedforward = FeedForward(config.width, config.feedforward, config.activation)

    @staticmethod
    def _attention(config: BlockConfig, name: str, cross: bool) -> Attention:
        c = config
        return Attention(c.width, c.heads, mixer=c.mixer, dropout=c.attention_dropout, name=name, cross=cross)

    def forward(
        self,
        x_BLD: Tensor,
        view: View,
        memory: KeysValues | None = None,
        memory_view: View | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        x_BLD = self.look(x_BLD, lambda h: self.self_attention(h, view, cache=cache))
        if self.look_back is not None and self.cross_attention is not None:
            cross = self.cross_attention
            x_BLD = self.look_back(x_BLD, lambda h: cross(h, memory_view, memory))
        return self.think(x_BLD, self.feedforward)
