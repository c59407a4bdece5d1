"""Scaled dot-product attention: softmax(Q K^T / sqrt(d_k)) V. Vaswani et al. 2017, equation 1; our K is the paper's d_k.

Differs from the paper in one case it does not have: a query that sees nobody (padding under a window) answers with zeros.
"""

from __future__ import annotations

from contextlib import nullcontext

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from regard.model.sparse import cpu, flex
from regard.model.sparse.blocks import tiles_of
from regard.model.visibility import View

SHORT = 256  # keys: up to here, products on a CPU measure faster than its fused kernel, unless gradients are needed

# Not cuDNN's: under a mask of 64 keys more than a multiple of 128, its gradient of queries whose scores are all far below zero is
# no number (pytorch issue 196678, torch 2.11 to 2.13).
MASKED = [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


class Softmax:
    folds = None

    def mix(self, q_BHLK: Tensor, k_BHMK: Tensor, v_BHMK: Tensor, view: View, dropout: float = 0.0) -> Tensor:
        if view.packed is not None:
            return _variable_lengths(q_BHLK, k_BHMK, v_BHMK, view, dropout)
        if q_BHLK.dtype == torch.bfloat16 and q_BHLK.device.type == "cpu" and torch.is_grad_enabled():
            # A CPU's kernel computes bf16 gradients at a quarter of the speed of float32 ones.
            with torch.autocast("cpu", enabled=False):
                return self.mix(q_BHLK.float(), k_BHMK.float(), v_BHMK.float(), view, dropout).to(q_BHLK.dtype)
        if view.blocks is not None:
            return _by_blocks(q_BHLK, k_BHMK, v_BHMK, view, dropout)
        short = k_BHMK.device.type == "cpu" and k_BHMK.shape[2] <= SHORT
        if short and view.mask is not None and not dropout and not torch.is_grad_enabled():
            context_BHLK = _products(q_BHLK, k_BHMK, v_BHMK, view.mask)
        else:
            context_BHLK = _all_pairs(q_BHLK, k_BHMK, v_BHMK, _added(view.mask, q_BHLK), dropout, view.causal)
        # Kernels differ in what a query that sees nobody gets (zeros on a CPU, NaN gradients from cuDNN), so none is given one.
        return context_BHLK if view.blind is None else context_BHLK.masked_fill(view.blind, 0.0)

    def weights(self, q_BHLK: Tensor, k_BHMK: Tensor, sees_BHLM: Tensor) -> Tensor:
        """Where keys are seen more than once, sees_BHLM says how many times: each time is one more term of the sum."""
        scores_BHLM = q_BHLK @ k_BHMK.mT / q_BHLK.shape[-1] ** 0.5
        if sees_BHLM.dtype != torch.bool:
            scores_BHLM = scores_BHLM + sees_BHLM.clamp(min=1).log().to(scores_BHLM.dtype)
        weights_BHLM = scores_BHLM.masked_fill(sees_BHLM == 0, float("-inf")).softmax(-1)
        return weights_BHLM.masked_fill(~sees_BHLM.any(-1, keepdim=True), 0.0)


def _added(mask: Tensor | None, q_BHLK: Tensor) -> Tensor | None:
    """As what is added to scores. The kernel would do so itself, but with numbers from the host, which no graph can record."""
    if mask is None or mask.dtype != torch.bool:
        return mask if mask is None else mask.to(q_BHLK.dtype)
    return torch.zeros_like(mask, dtype=q_BHLK.dtype).masked_fill_(~mask, -torch.inf)


def _all_pairs(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout: float, causal: bool = False) -> Tensor:
    with sdpa_kernel(MASKED) if mask is not None and q.is_cuda else nullcontext():
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal, dropout_p=dropout)


def _by_blocks(q_BHLK: Tensor, k_BHMK: Tensor, v_BHMK: Tensor, view: View, dropout: float) -> Tensor:
    """Blocks that nobody sees are left out. Where weights are dropped, or FlexAttention does not suit, by plain products."""
    assert view.blocks is not None
    assert isinstance(view.offset, int)
    if flex.suits(q_BHLK, dropout):
        return flex.mix(q_BHLK, k_BHMK, v_BHMK, view)
    if (tiles := view.blocks.tiles) is None:
        tiles = tiles_of(view.visibility, view.blocks, view.length, view.memory, batch=view.batch, offset=view.offset)
    if dropout or q_BHLK.is_cuda:
        return cpu.explicit(q_BHLK, k_BHMK, v_BHMK, tiles, dropout)
    return cpu.mix(q_BHLK, k_BHMK, v_BHMK, tiles)


def _variable_lengths(q_1HLK: Tensor, k_1HMK: Tensor, v_1HMK: Tensor, view: View, dropout: float) -> Tensor:
    """Packed sequences, by the flash kernel that takes them so; it knows half precision and no dropout."""
    assert view.packed is not None
    if q_1HLK.dtype == torch.float32 or dropout:
        sees = view.rows(torch.arange(view.length, device=view.device))
        return _all_pairs(q_1HLK, k_1HMK, v_1HMK, sees, dropout)
    from torch.nn.attention.varlen import varlen_attn  # imports all of torch's compiler, which few models need

    queries, keys, reach = view.packed
    q, k, v = (part[0].transpose(0, 1) for part in (q_1HLK, k_1HMK, v_1HMK))
    context = varlen_attn(q, k, v, queries.starts_N, keys.starts_N, queries.longest, keys.longest, window_size=reach)
    assert isinstance(context, Tensor)
    return context.transpose(0, 1)[None]


def _products(q_BHLK: Tensor, k_BHMK: Tensor, v_BHMK: Tensor, mask: Tensor) -> Tensor:
    """Two batched products, for the short memories of a decoding step."""
    shape = (*q_BHLK.shape[:3], k_BHMK.shape[2])
    added = _added(mask, q_BHLK)
    assert added is not None
    bias, q, k, v = (part.flatten(0, 1) for part in (added.expand(shape), q_BHLK, k_BHMK, v_BHMK))
    weights = torch.baddbmm(bias, q, k.mT, alpha=q.shape[-1] ** -0.5).softmax(-1)
    return torch.bmm(weights, v).unflatten(0, shape[:2])
