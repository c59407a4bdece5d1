"""A decoder's step, from its newest tokens' vectors to logits: five kernels a block, or eight with cross-attention.

Block by block it follows `Stack`, `Block`, `Residual` and `Attention`, whose own forward is the definition it is tested against.
It serves where a step waits for memory and launches: few rows on a GPU, nobody looking, no gradient. All else takes the modules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from itertools import chain

import torch
from torch import Tensor, nn

from regard.model.attention import Attention, KeysValues
from regard.model.block import Block, Residual
from regard.model.cache import Cache, Slots
from regard.model.feedforward import ACTIVATIONS
from regard.model.heads import VocabularyHead
from regard.model.linear import Linear
from regard.model.mixers import MIXERS
from regard.model.probe import attentions
from regard.model.stack import Stack
from regard.model.visibility import View

HAS_TRITON = find_spec("triton") is not None
if HAS_TRITON:
    from regard.model.kernels.attend import attend_memory, attend_own
    from regard.model.kernels.products import Pending, product

MOST_ROWS = 64
OLDEST = (8, 0)  # Ampere, which brought bf16 and copies that do not wait
TYPES = (torch.bfloat16, torch.float16, torch.float32)
NAMES = {function: name for name, function in ACTIVATIONS.items()}
Sublayer = Callable[["Pending"], tuple[Tensor, nn.Linear]]  # what its last product takes, and that product


def logits(
    stack: Stack,
    head: VocabularyHead,
    x_SWD: Tensor,
    view: View,
    memories: Sequence[KeysValues] | None,
    memory_view: View | None,
    caches: Sequence[Cache],
) -> Tensor:
    """head(stack(x_SWD, ...)), by whatever is fastest."""
    if suits(stack, head, x_SWD) and all(isinstance(cache, Slots) for cache in caches):
        return fused(stack, head, x_SWD, view, memories, memory_view, caches)  # type: ignore[arg-type]
    return head(stack(x_SWD, view, memories, memory_view, caches))


def suits(stack: Stack, head: VocabularyHead, x_SWD: Tensor) -> bool:
    """May the kernels take this step?"""
    if not (HAS_TRITON and x_SWD.is_cuda) or torch.compiler.is_compiling() or torch.is_autocast_enabled("cuda"):
        return False
    if torch.cuda.get_device_capability(x_SWD.device) < OLDEST:
        return False
    if torch.is_grad_enabled() or stack.training or x_SWD.shape[:2].numel() > MOST_ROWS or x_SWD.dtype not in TYPES:
        return False
    if head.before is not None or any(
        a.probe is not None or a.mixer is not MIXERS["softmax"] for a in attentions(stack).values()
    ):
        return False
    linears = [module for module in chain(stack.modules(), head.modules()) if isinstance(module, Linear)]
    alike = all(weight.dtype == x_SWD.dtype and weight.is_contiguous() for weight in chain(stack.parameters(), head.parameters()))
    return alike and all(linear.in_features % 16 == 0 for linear in linears)


def fused(
    stack: Stack,
    head: VocabularyHead,
    x_SWD: Tensor,
    view: View,
    memories: Sequence[KeysValues] | None,
    memory_view: View | None,
    caches: Sequence[Slots],
) -> Tensor:
    """logits_SWV by the kernels, on a GPU or in Triton's interpreter."""
    x = Pending(x_SWD.flatten(0, 1))
    mask_S1WN, memory_mask_S11M = added(view), None if memory_view is None else added(memory_view)
    for n, block in enumerate(stack.blocks):
        x = _residual(block.look, x, _look(block.self_attention, mask_S1WN, caches[n]))
        if block.look_back is not None and block.cross_attention is not None:
            assert memories is not None
            assert memory_mask_S11M is not None
            x = _residual(block.look_back, x, _look_back(block.cross_attention, memory_mask_S11M, memories[n]))
        x = _residual(block.think, x, _think(block))
    last = Pending(x.x_MK, stack.norm or x.norm)
    return product(last, head.project).unflatten(0, x_SWD.shape[:2])


def added(view: View) -> Tensor:
    """The mask as what is added to scores, which on a GPU it already is."""
    assert view.mask is not None
    assert view.blind is None
    mask = view.mask
    return torch.zeros(mask.shape, device=mask.device).masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else mask


def _residual(residual: Residual, x: Pending, sublayer: Sublayer) -> Pending:
    """x + f(norm x), or norm(x + f x), whose norm is left to whoever takes the sum: the sublayer's last product adds it."""
    inner, last = sublayer(Pending(x.x_MK, residual.norm) if residual.pre else x)
    return Pending(product(Pending(inner), last, residual=x), None if residual.pre else residual.norm)


def _look(attention: Attention, mask_S1WN: Tensor, cache: Slots) -> Sublayer:
    def sublayer(x: Pending) -> tuple[Tensor, nn.Linear]:
        qkv_RE = product(x, attention.project)
        return attend_own(qkv_RE, mask_S1WN, cache.now_2SHNK, cache.lineage.slots_W), attention.out

    return sublayer


def _look_back(attention: Attention, mask_S11M: Tensor, memory: KeysValues) -> Sublayer:
    def sublayer(x: Pending) -> tuple[Tensor, nn.Linear]:
        assert attention.query is not None
        return attend_memory(product(x, attention.query), mask_S11M, *memory), attention.out

    return sublayer


def _think(block: Block) -> Sublayer:
    feedforward = block.feedforward

    def sublayer(x: Pending) -> tuple[Tensor, nn.Linear]:
        return product(x, feedforward.expand, NAMES[feedforward.activation]), feedforward.contract

    return sublayer
