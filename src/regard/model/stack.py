"""A stack of blocks: encoder, decoder, or the decoder half of an encoder-decoder, by its visibility and `cross`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from regard.core.errors import UserError
from regard.model.attention import KeysValues
from regard.model.block import Block, BlockConfig, sublayers
from regard.model.mixers import LINEAR, check_visibility
from regard.model.mixers.causal_scan import Sums
from regard.model.norm import NORMS
from regard.model.position import PositionKind, check_position
from regard.model.position.base import Position
from regard.model.position.relative_bias import RelativeSettings
from regard.model.position.rotary import RotarySettings
from regard.model.pruning import parse_pruned
from regard.model.state.kv_cache import Cache
from regard.model.visibility import View
from regard.model.visibility.parse import parse_visibility


@dataclass(frozen=True, kw_only=True)
class BodyConfig(BlockConfig, RotarySettings, RelativeSettings):
    """Settings of every family made of blocks."""

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
        self.check_rotary()
        self.check_relative()
        check_position(self, linear=self.mixer in LINEAR, scores=self.compares)
        if self.pruned:
            parse_pruned(self.pruned, self.heads, self.attentions)

    @property
    def attentions(self) -> list[str]:
        """By the names that a probe knows them by. A body reads, unless its family says otherwise."""
        return [f"encoder.{n}.self" for n in range(self.layers)]

    @property
    def packable(self) -> bool:
        """Is there a kernel for sequences packed without padding?"""
        softmax = self.mixer == "softmax" and not self.attention_dropout
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
            Block(config, sublayers(config, f"{name}.{n}", cross, n, memory_width)) for n in range(layers)
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
    ) -> Tensor:
        position = None if self.position is None else self.position.over(view)
        for n, block in enumerate(self.blocks):
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
