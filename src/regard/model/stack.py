"""A stack of blocks: encoder, decoder, or the decoder half of an encoder-decoder, by its visibility and `cross`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from regard.core.errors import UserError
from regard.model.attention import KeysValues
from regard.model.block import Block, BlockConfig
from regard.model.mixers import check_visibility
from regard.model.mixers.causal_scan import Sums
from regard.model.norm import Norm
from regard.model.position.absolute import PositionKind
from regard.model.pruning import parse_pruned
from regard.model.state.kv_cache import Cache
from regard.model.visibility import View
from regard.model.visibility.parse import parse_visibility


@dataclass(frozen=True, kw_only=True)
class BodyConfig(BlockConfig):
    """What every family made of blocks chooses beside them."""

    layers: int = 6
    visibility: str = "full"
    position: PositionKind = "sinusoidal"
    maximum_length: int = 1024  # of learned positions

    def __post_init__(self) -> None:
        super().__post_init__()
        for key in ("layers", "maximum_length"):
            if getattr(self, key) < 1:
                raise UserError(f"model.{key}={getattr(self, key)} must be at least 1.")
        check_visibility(self, parse_visibility(self.visibility))
        if self.pruned:
            parse_pruned(self.pruned, self.heads, self.attentions)

    @property
    def attentions(self) -> list[str]:
        """By the names that a probe knows them by. A body reads, unless its family says otherwise."""
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
        softmax = self.mixer == "softmax" and not self.attention_dropout
        return softmax and parse_visibility(self.visibility).reach is not None


class Stack(nn.Module):
    def __init__(self, config: BlockConfig, layers: int, name: str, cross: bool = False) -> None:
        super().__init__()
        self.blocks: Sequence[Block] = nn.ModuleList(  # type: ignore[assignment]
            Block(config, f"{name}.{n}", cross, n) for n in range(layers)
        )
        self.recompute = False  # keep a block's input alone, and compute the rest again when its gradient is asked for
        # A pre-norm stack leaves its sum unnormalised, so it ends with a norm of its own; a post-norm block has done so.
        self.norm = Norm(config.width, eps=config.norm_epsilon) if config.norm == "pre" else None

    def forward(
        self,
        x_BLD: Tensor,
        view: View,
        memories: Sequence[KeysValues | Sums] | None = None,
        memory_view: View | None = None,
        caches: Sequence[Cache] | None = None,
    ) -> Tensor:
        for n, block in enumerate(self.blocks):
            rest = (view, memories[n] if memories else None, memory_view, caches[n] if caches else None)
            if self.recompute and torch.is_grad_enabled():
                x_BLD = checkpoint(block, x_BLD, *rest, use_reentrant=False)
            else:
                x_BLD = block(x_BLD, *rest)
        return x_BLD if self.norm is None else self.norm(x_BLD)

    def remember(self, memory_BMD: Tensor) -> list[KeysValues]:
        """What each block's cross-attention will look at."""
        return [block.cross_attention.remember(memory_BMD) for block in self.blocks if block.cross_attention is not None]
