"""The block of the whole family, a list of named residual sublayers, and the stack of blocks.

    encoder, GPT          self, ffn
    decoder that reads    self, cross, ffn
    model.mixer=conv      the same with a convolution as `self`

Vaswani et al. 2017, section 3.1. Visibility is what makes a decoder causal; nothing else differs. A sublayer named `self` is
given the view, the cache and the positions of its own tokens, one named `cross` the memory and its view, any other vectors
alone.

Stochastic depth (Huang et al. 2016, section 3): while a model trains, a sublayer is left out of some examples and counts 1 / (1 -
p) in the others, where p grows in equal steps from 0 in the first layer of a stack to `drop_path` in its last, as DeiT has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from regard.core.config import Bounds, Count, Fraction, check_bounds
from regard.core.errors import UserError
from regard.model.attention import Attention, KeysValues
from regard.model.layers import NORMS, Activation, FeedForward, FeedForwardKind, NormKind
from regard.model.mixers import CHOOSING, LINEAR, MIXERS, SCORES, check_mixer, check_visibility
from regard.model.mixers.causal_scan import Sums
from regard.model.mixers.convolution import Convolution, ConvolutionSettings
from regard.model.mixers.linear import FavorSettings
from regard.model.position import check_position
from regard.model.position.base import Placement, Position
from regard.model.position.relative import RelativeSettings, RotarySettings
from regard.model.pruning import kept_heads, parse_pruned
from regard.model.sparse.probsparse import ProbSparseSettings
from regard.model.state.kv_cache import Cache
from regard.model.visibility import View
from regard.model.visibility.parse import parse_visibility

NormEpsilon = Annotated[float, Bounds(0, 1, above=True, below=True, example="1e-5")]


@dataclass(frozen=True, kw_only=True)
class BlockConfig(FavorSettings, ConvolutionSettings, ProbSparseSettings):
    """Settings of a block. Those of one mixer alone are declared, and checked, beside that mixer."""

    width: Count = 512
    heads: Count = 8
    kv_heads: int = 0  # heads of keys and values, shared by groups of heads; 0: as many as heads
    head_width: Annotated[int, Bounds(0, zero="model.width / model.heads")] = 0
    feedforward: Count = 2048
    feedforward_kind: FeedForwardKind = "plain"
    activation: Activation = "relu"
    bias: bool = True  # of the linear layers of blocks
    qkv_bias: bool = False  # of queries, keys and values, where other layers have none (Qwen2)
    qk_norm: bool = False  # queries and keys are divided by their root mean square (Qwen3)
    dropout: Fraction = 0.1
    attention_dropout: Fraction = 0.0
    activation_dropout: Fraction = 0.0  # inside the feed-forward network
    drop_path: Fraction = 0.0  # share of the examples that the last layer of a stack is left out of; less of earlier ones
    norm: NormKind = "layer"
    norm_placement: Literal["pre", "post"] = "post"
    norm_epsilon: NormEpsilon = 1e-5
    mixer: str = "softmax"
    scaled: bool = True  # scores of softmax are divided by the root of the head width
    pruned: tuple[str, ...] = ()  # heads that are gone, such as encoder.0.self:1+3

    def __post_init__(self) -> None:
        check_bounds(self, "model.")
        if self.width % self.heads and not self.head_width:
            raise UserError(
                f"model.width={self.width} does not divide by model.heads={self.heads}; "
                f"the nearest width that does is {max(1, round(self.width / self.heads)) * self.heads}."
            )
        if self.kv_heads < 0 or self.heads % (self.kv_heads or 1):
            raise UserError(
                f"model.kv_heads={self.kv_heads} must divide model.heads={self.heads}, such as 1 or {self.heads}; 0 is as many."
            )
        if self.pruned and self.kv_heads not in (0, self.heads):
            raise UserError(
                f"model.pruned={self.pruned[0]} removes a head with its keys and values, and with model.kv_heads={self.kv_heads} "
                "heads share them; leave one of the two out."
            )
        if not self.scaled and self.mixer != "softmax":
            raise UserError(f"model.scaled=false is for model.mixer=softmax; with {self.mixer} it does nothing: leave it out.")
        if self.bias and self.qkv_bias:
            raise UserError("model.qkv_bias=true is for model.bias=false; with biases everywhere it adds none: leave it out.")
        if self.qk_norm and not self.scores:
            raise UserError(f"model.qk_norm=true is for mixers with scores, and model.mixer={self.mixer} has none; leave it out.")
        parse_pruned(self.pruned, self.heads)
        check_mixer(self)

    @property
    def key_width(self) -> int:
        """Width of a head."""
        return self.head_width or self.width // self.heads

    @property
    def compares(self) -> bool:
        """Does the mixer compare queries with keys, so that a mask may be needed?"""
        return self.mixer in SCORES

    @property
    def scores(self) -> bool:
        """Does the mixer have weights of single keys, of all queries or of some?"""
        return self.mixer in SCORES or self.mixer in CHOOSING


class Residual(nn.Module):
    """A sublayer with its norm and skip connection: x + f(norm x), or norm(x + f x) as in the 2017 paper."""

    def __init__(self, config: BlockConfig, layer: nn.Module, drop_path: float = 0.0) -> None:
        super().__init__()
        self.norm = NORMS[config.norm](config.width, eps=config.norm_epsilon)
        self.layer = layer
        self.dropout = nn.Dropout(config.dropout)
        self.drop_path = drop_path
        self.pre = config.norm_placement == "pre"

    def forward(self, x_BLD: Tensor, *rest: Any) -> Tensor:
        if self.pre:
            return x_BLD + self._dropped(self.layer(self.norm(x_BLD), *rest))
        return self.norm(x_BLD + self._dropped(self.layer(x_BLD, *rest)))

    def _dropped(self, y_BLD: Tensor) -> Tensor:
        if not self.training:
            return y_BLD
        y_BLD = self.dropout(y_BLD)
        if not self.drop_path:
            return y_BLD
        # By the same draws as dropout, so that steps are seeded, captured and computed again as it is.
        return y_BLD * F.dropout(y_BLD.new_ones(len(y_BLD), 1, 1), self.drop_path)


class Block(nn.Module):
    """Residual sublayers in a row, each by its name: block["self"].layer is its self-attention."""

    def __init__(self, config: BlockConfig, sublayers: Mapping[str, nn.Module], drop_path: float = 0.0) -> None:
        super().__init__()
        for name, layer in sublayers.items():
            self.add_module(name, Residual(config, layer, drop_path))

    def __getitem__(self, name: str) -> Residual:
        return cast(Residual, self._modules[name])

    def __contains__(self, name: str) -> bool:
        return name in self._modules

    @property
    def self_attention(self) -> Attention | Convolution:
        return cast(Attention, self["self"].layer)

    @property
    def cross_attention(self) -> Attention | None:
        return cast(Attention, self["cross"].layer) if "cross" in self else None

    @property
    def feedforward(self) -> FeedForward:
        return cast(FeedForward, self["ffn"].layer)

    def forward(
        self,
        x_BLD: Tensor,
        view: View,
        memory: KeysValues | Sums | None = None,
        memory_view: View | None = None,
        cache: Cache | None = None,
        position: Placement | None = None,
    ) -> Tensor:
        given = {"self": (view, None, cache, position), "cross": (memory_view, memory)}
        for name, residual in self.named_children():
            x_BLD = residual(x_BLD, *given.get(name, ()))
        return x_BLD


def sublayers(config: BlockConfig, name: str, cross: bool, layer: int = 0, memory_width: int = 0) -> dict[str, nn.Module]:
    """Build the sublayers of the block of this name, the `layer`-th of its stack."""
    c = config

    def attention(kind: str) -> Attention:
        mixer = MIXERS.get(c.mixer, MIXERS["softmax"])(c, f"{name}.{kind}")  # what takes the place of `self` cannot read a source
        return Attention(
            c.width,
            heads := len(kept_heads(c, f"{name}.{kind}")),
            mixer=mixer,
            dropout=c.attention_dropout,
            name=f"{name}.{kind}",
            cross=kind == "cross",
            head_width=c.key_width,
            kv_heads=c.kv_heads or heads,
            memory_width=memory_width,
            bias=c.bias,
            qkv_bias=c.qkv_bias,
            scaled=c.scaled,
            qk_norm=c.norm_epsilon if c.qk_norm else 0.0,
        )

    first = attention("self") if c.mixer in MIXERS else Convolution.build(c, f"{name}.self", layer)
    gated = c.feedforward_kind == "gated"
    ffn = FeedForward(c.width, c.feedforward, c.activation, c.activation_dropout, gated=gated, bias=c.bias)
    return {"self": first} | ({"cross": attention("cross")} if cross else {}) | {"ffn": ffn}


@dataclass(frozen=True, kw_only=True)
class BodyConfig(BlockConfig, RotarySettings, RelativeSettings):
    """Settings of every family made of blocks."""

    layers: Count = 6
    visibility: str = "full"
    position: str = "sinusoidal"
    maximum_length: Count = 1024  # of learned positions

    def __post_init__(self) -> None:
        super().__post_init__()
        check_visibility(self, parse_visibility(self.visibility))
        self.check_rotary()
        self.check_relative()
        check_position(self, linear=self.mixer in LINEAR or self.mixer in CHOOSING, scores=self.compares)
        if self.pruned:
            parse_pruned(self.pruned, self.heads, self.attentions)
        if self.drop_path and max(self.depth) < 2:
            raise UserError(
                f"model.drop_path={self.drop_path} grows from 0 in the first layer, and there is one layer; leave it out or set "
                "model.layers=2."
            )

    @property
    def attentions(self) -> list[str]:
        """Return the names of all attentions, as a probe has them; by default those of an encoder."""
        return [f"encoder.{n}.self" for n in range(self.layers)]

    @property
    def depth(self) -> tuple[int, int]:
        """Encoder layers and decoder layers."""
        return self.layers, 0

    @property
    def context(self) -> int | None:
        """The most tokens of a text; None where positions have no end."""
        return self.maximum_length if self.position == "learned" else None

    @property
    def summary(self) -> str:
        layers = "+".join(str(number) for number in self.depth if number)
        return f"width {self.width}, {self.heads} heads, {layers} layers, feed-forward {self.feedforward}"

    @property
    def packable(self) -> bool:
        """Is there a kernel for sequences packed without padding?"""
        # Sequences of one row would share what drop_path draws for a row.
        softmax = self.mixer == "softmax" and not self.attention_dropout and not self.drop_path
        return softmax and parse_visibility(self.visibility).reach is not None


class Stack(nn.Module):
    """Blocks in a row, one position scheme for the self-attention of all of them, and in a pre-norm stack a norm at the end."""

    def __init__(
        self,
        config: BlockConfig,
        layers: int,
        name: str,
        cross: bool = False,
        *,
        position: Position | None = None,
        memory_width: int = 0,
    ) -> None:
        super().__init__()
        self.blocks: Sequence[Block] = nn.ModuleList(  # type: ignore[assignment]
            Block(config, sublayers(config, f"{name}.{n}", cross, n, memory_width), config.drop_path * n / max(1, layers - 1))
            for n in range(layers)
        )
        self.recompute = False  # keep a block's input alone, and compute the rest again when its gradient is asked for
        # A pre-norm stack leaves its sum unnormalised, so it ends with a norm of its own; a post-norm block has done so.
        ends = config.norm_placement == "pre"
        self.norm = NORMS[config.norm](config.width, eps=config.norm_epsilon) if ends else None
        self.position = position

    def forward(
        self,
        x_BLD: Tensor,
        view: View,
        memories: Sequence[KeysValues | Sums] | None = None,
        memory_view: View | None = None,
        caches: Sequence[Cache] | None = None,
        inputs: list[Tensor] | None = None,
    ) -> Tensor:
        """Return x_BLD after all blocks; the input of each block is appended to `inputs`, which a segment memory keeps."""
        position = None if self.position is None else self.position.over(view)
        for n, block in enumerate(self.blocks):
            if inputs is not None:
                inputs.append(x_BLD)
            memory, cache = memories[n] if memories else None, caches[n] if caches else None
            rest = (view, memory, memory_view, cache, None if position is None else position.layer(n))
            if self.recompute and torch.is_grad_enabled():
                x_BLD = checkpoint(block, x_BLD, *rest, use_reentrant=False)
            else:
                x_BLD = block(x_BLD, *rest)
        return x_BLD if self.norm is None else self.norm(x_BLD)

    def project_kv(self, memory_BMD: Tensor) -> list[KeysValues]:
        """Return the keys and values of a memory for the cross-attention of each block."""
        return [block.cross_attention.project_kv(memory_BMD) for block in self.blocks if block.cross_attention is not None]
