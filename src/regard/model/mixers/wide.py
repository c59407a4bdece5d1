"""Attention with wide blocks shared out: copies are made for every chunk of a text, and what they answer is put together.

Softmax over all keys is that over each chunk, weighed by the chunks' sums (as Dao et al. 2022 put tiles together): the answer to
a wide query is the mean of its copies' answers, each with its share of exp(lse). Keys are seen once each, so that nothing has to
be put together; the gradients of their copies are added. `patterns/wide.py` has the map that says who looks at which copy.

Dims: B batch, H heads, L tokens, K head width, P tokens of wide blocks, G chunks, E tokens of whole chunks and all copies.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function

from regard.model.patterns.wide import Wide

NOBODY = -1e30  # for the lse of who sees nobody, which is minus infinity, as a share that is 0 and has a gradient

Kernel = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


def mix(q_BHLK: Tensor, k_BHLK: Tensor, v_BHLK: Tensor, wide: Wide, kernel: Kernel) -> Tensor:
    """context_BHLK. The kernel has the map with the copies, and gives context_BHEK and lse_BHE."""
    places, (chunks, text) = (wide.places_BP, wide.slots_BL), (wide.chunks, wide.chunks * wide.chunk * wide.size)
    context_BHEK, lse_BHE = kernel(*(WithCopies.apply(x, *places, chunks, text) for x in (q_BHLK, k_BHLK, v_BHLK)))
    copies = chunks, wide.places_BP.shape[1]
    context_BHGPK, lse_BHGP = context_BHEK[:, :, text:].unflatten(2, copies), lse_BHE[:, :, text:].unflatten(2, copies)
    share_BHGP = lse_BHGP.masked_fill(lse_BHGP == -torch.inf, NOBODY).softmax(2)
    answer_BHPK = (share_BHGP[..., None] * context_BHGPK).sum(2).to(context_BHEK.dtype)
    return PutBack.apply(context_BHEK, answer_BHPK, *places)


class WithCopies(Function):
    """x_BHEK: the text, zeros up to whole chunks, and for every chunk all wide blocks. Copies' gradients are added to theirs.

    By autograd that would be a sum of two tensors as large as the text, one of them nearly all zeros, for q, k and v each.
    """

    @staticmethod
    def forward(ctx: Any, x_BHLK: Tensor, places_BP: Tensor, slots_BL: Tensor, chunks: int, text: int) -> Tensor:
        ctx.save_for_backward(slots_BL)
        ctx.chunks, ctx.text = chunks, text
        filler = x_BHLK.new_zeros(*x_BHLK.shape[:2], text - x_BHLK.shape[2], x_BHLK.shape[3])
        copies_BHPK = x_BHLK.gather(2, _rows(places_BP, x_BHLK))
        return torch.cat([x_BHLK, filler, copies_BHPK.repeat(1, 1, chunks, 1)], 2)

    @staticmethod
    def backward(ctx: Any, g_BHEK: Tensor) -> tuple[Tensor, None, None, None, None]:
        (slots_BL,) = ctx.saved_tensors
        precise = torch.promote_types(g_BHEK.dtype, torch.float32)
        g_BHPK = g_BHEK[:, :, ctx.text :].unflatten(2, (ctx.chunks, -1)).sum(2, dtype=precise)
        g_BHLK = g_BHEK[:, :, : slots_BL.shape[1]]
        added_BHLK = _by_slot(g_BHPK, slots_BL).masked_fill(~_wide(slots_BL), 0.0)
        return (g_BHLK + added_BHLK).to(g_BHEK.dtype), None, None, None, None


class PutBack(Function):
    """context_BHLK with the answers to wide queries in their rows, from the copies' on no more."""

    @staticmethod
    def forward(ctx: Any, context_BHEK: Tensor, answer_BHPK: Tensor, places_BP: Tensor, slots_BL: Tensor) -> Tensor:
        ctx.save_for_backward(places_BP, slots_BL)
        ctx.tokens = context_BHEK.shape[2]
        return torch.where(_wide(slots_BL), _by_slot(answer_BHPK, slots_BL), context_BHEK[:, :, : slots_BL.shape[1]])

    @staticmethod
    def backward(ctx: Any, g_BHLK: Tensor) -> tuple[Tensor, Tensor, None, None]:
        places_BP, slots_BL = ctx.saved_tensors
        narrow_BHLK = g_BHLK.masked_fill(_wide(slots_BL), 0.0)
        # of a block that is not there, and of tokens behind the text, nothing was put back
        there_BP = slots_BL.gather(1, places_BP) == torch.arange(places_BP.shape[1], device=places_BP.device)
        g_BHPK = g_BHLK.gather(2, _rows(places_BP, g_BHLK)).masked_fill(~there_BP[:, None, :, None], 0.0)
        return F.pad(narrow_BHLK, (0, 0, 0, ctx.tokens - g_BHLK.shape[2])), g_BHPK, None, None


def _wide(slots_BL: Tensor) -> Tensor:
    """wide_B1L1"""
    return (slots_BL >= 0)[:, None, :, None]


def _by_slot(x_BHPK: Tensor, slots_BL: Tensor) -> Tensor:
    """x_BHLK: of wide tokens their row, of others any."""
    return x_BHPK.gather(2, _rows(slots_BL.clamp(min=0), x_BHPK))


def _rows(at_BP: Tensor, like_BHLK: Tensor) -> Tensor:
    """As gather wants them."""
    batch, heads, _, width = like_BHLK.shape
    return at_BP[:, None, :, None].expand(batch, heads, -1, width)
