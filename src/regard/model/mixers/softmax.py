"""Scaled dot-product attention: softmax(Q K^T / sqrt(d_k)) V. Vaswani et al. 2017, equation 1; our K is the paper's d_k.

Differs from the paper in one case it does not have: a query without visible keys (padding under a window) has a zero context.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from regard.model.position.base import Bias
from regard.model.sparse import cpu, flex, known_scores
from regard.model.sparse.blocks import Tiles, tiles_of
from regard.model.sparse.dispatch import softmax_kernel
from regard.model.visibility import Full, View

# Not cuDNN's: under a mask of 64 keys more than a multiple of 128, its gradient of queries whose scores are all far below zero is
# no number (pytorch issue 196678, torch 2.11 to 2.13).
MASKED = [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


class Softmax:
    recurrent_form = None

    def mix(
        self, q_BHLK: Tensor, k_BHMK: Tensor, v_BHMK: Tensor, view: View, dropout: float = 0.0, bias: Bias | None = None
    ) -> Tensor:
        """Return context_BHLK by the kernel that `sparse/dispatch.py` names; `bias` is added to the scaled scores."""
        if q_BHLK.dtype == torch.bfloat16 and q_BHLK.device.type == "cpu" and torch.is_grad_enabled():
            # A CPU's kernel computes bf16 gradients at a quarter of the speed of float32 ones.
            with torch.autocast("cpu", enabled=False):
                return self.mix(q_BHLK.float(), k_BHMK.float(), v_BHMK.float(), view, dropout, bias).to(q_BHLK.dtype)
        if bias is not None and bias.scores is not None:
            return known_scores.mix(bias.scores, v_BHMK, view, dropout)
        match softmax_kernel(q_BHLK, k_BHMK, view, dropout, bias is not None):
            case "varlen":
                return _variable_lengths(q_BHLK, k_BHMK, v_BHMK, view)
            case "flex":
                return flex.mix(q_BHLK, k_BHMK, v_BHMK, view, bias)
            case "blocked":
                return cpu.mix(q_BHLK, k_BHMK, v_BHMK, _tiles(view))
            case "blocked weights":
                return cpu.explicit(q_BHLK, k_BHMK, v_BHMK, _tiles(view), dropout, bias)
            case "products":
                context_BHLK = _products(q_BHLK, k_BHMK, v_BHMK, _with_bias(view, bias, q_BHLK).mask)
            case _:
                view = _with_bias(view.rendered() if view.packed is not None else view, bias, q_BHLK)
                context_BHLK = _all_pairs(q_BHLK, k_BHMK, v_BHMK, _added(view.mask, q_BHLK), dropout, view.causal)
        # Kernels differ in what a query that sees no key gets (zeros on a CPU, NaN gradients from cuDNN), so none is given one.
        return context_BHLK if view.fully_masked_rows is None else context_BHLK.masked_fill(view.fully_masked_rows, 0.0)

    def weights(self, q_BHLK: Tensor, k_BHMK: Tensor, sees_BHLM: Tensor, bias_BHLM: Tensor | None = None) -> Tensor:
        """Return weights_BHLM. Where keys are seen more than once, sees_BHLM says how many times: as many terms of the sum."""
        scores_BHLM = q_BHLK @ k_BHMK.mT / q_BHLK.shape[-1] ** 0.5
        if bias_BHLM is not None:
            scores_BHLM = scores_BHLM + bias_BHLM
        if sees_BHLM.dtype != torch.bool:
            scores_BHLM = scores_BHLM + sees_BHLM.clamp(min=1).log().to(scores_BHLM.dtype)
        weights_BHLM = scores_BHLM.masked_fill(sees_BHLM == 0, float("-inf")).softmax(-1)
        return weights_BHLM.masked_fill(~sees_BHLM.any(-1, keepdim=True), 0.0)


def _with_bias(view: View, bias: Bias | None, q_BHLK: Tensor) -> View:
    """Return the view with its mask and the bias as one tensor that is added to scores."""
    if bias is None:
        return view
    if view.mask is None and not isinstance(view.visibility, Full):
        view = view.rendered()
    bias_BHLM = bias.dense().to(q_BHLK.dtype)
    if view.mask is not None:
        hides = view.mask.dtype == torch.bool
        bias_BHLM = bias_BHLM.masked_fill(~view.mask, -torch.inf) if hides else bias_BHLM + view.mask.to(q_BHLK.dtype)
    return replace(view, mask=bias_BHLM, causal=False)


def _tiles(view: View) -> Tiles:
    assert view.blocks is not None
    assert isinstance(view.offset, int)
    if view.blocks.tiles is not None:
        return view.blocks.tiles
    return tiles_of(view.visibility, view.blocks, view.length, view.memory, batch=view.batch, offset=view.offset)


def _added(mask: Tensor | None, q_BHLK: Tensor) -> Tensor | None:
    """Return the mask as numbers added to scores. The kernel would use numbers from the host, which no CUDA graph can record."""
    if mask is None or mask.dtype != torch.bool:
        return mask if mask is None else mask.to(q_BHLK.dtype)
    return torch.zeros_like(mask, dtype=q_BHLK.dtype).masked_fill_(~mask, -torch.inf)


def _all_pairs(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout: float, causal: bool = False) -> Tensor:
    with sdpa_kernel(MASKED) if mask is not None and q.is_cuda else nullcontext():
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal, dropout_p=dropout)


def _variable_lengths(q_1HLK: Tensor, k_1HMK: Tensor, v_1HMK: Tensor, view: View) -> Tensor:
    """Return the context of packed sequences by the flash kernel for variable lengths: half precision, no dropout, no bias."""
    assert view.packed is not None
    from torch.nn.attention.varlen import varlen_attn  # imports all of torch's compiler, which few models need

    queries, keys, reach = view.packed
    q, k, v = (part[0].transpose(0, 1) for part in (q_1HLK, k_1HMK, v_1HMK))
    context = varlen_attn(q, k, v, queries.starts_N, keys.starts_N, queries.longest, keys.longest, window_size=reach)
    assert isinstance(context, Tensor)
    return context.transpose(0, 1)[None]


def _products(q_BHLK: Tensor, k_BHMK: Tensor, v_BHMK: Tensor, mask: Tensor | None) -> Tensor:
    """Two batched products, for the short memories of a decoding step."""
    shape = (*q_BHLK.shape[:3], k_BHMK.shape[2])
    added = _added(mask, q_BHLK)
    assert added is not None
    bias, q, k, v = (part.flatten(0, 1) for part in (added.expand(shape), q_BHLK, k_BHMK, v_BHMK))
    weights = torch.baddbmm(bias, q, k.mT, alpha=q.shape[-1] ** -0.5).softmax(-1)
    return torch.bmm(weights, v).unflatten(0, shape[:2])
