"""Scaled dot-product attention: softmax(Q K^T / sqrt(d_k)) V. Vaswani et al. 2017, equation 1; our K is the paper's d_k.

Differs from the paper in one case it does not have: a query that sees nobody (padding under a window) answers with zeros.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.model.visibility import View

SHORT = 256  # keys: up to here, products on a CPU measure faster than its fused kernel, unless gradients are needed


class Softmax:
    def mix(self, q_BHLK: Tensor, k_BHMK: Tensor, v_BHMK: Tensor, view: View, dropout: float = 0.0) -> Tensor:
        short = k_BHMK.device.type == "cpu" and k_BHMK.shape[2] <= SHORT
        if short and view.mask is not None and not dropout and not torch.is_grad_enabled():
            context_BHLK = _products(q_BHLK, k_BHMK, v_BHMK, view.mask)
        else:
            context_BHLK = F.scaled_dot_product_attention(
                q_BHLK, k_BHMK, v_BHMK, attn_mask=view.mask, is_causal=view.causal, dropout_p=dropout
            )
        # Kernels differ in what a query that sees nobody gets (zeros on a CPU, NaN gradients from cuDNN), so none is given one.
        return context_BHLK if view.blind is None else context_BHLK.masked_fill(view.blind, 0.0)

    def weights(self, q_BHLK: Tensor, k_BHMK: Tensor, sees_BHLM: Tensor) -> Tensor:
        scores_BHLM = q_BHLK @ k_BHMK.mT / q_BHLK.shape[-1] ** 0.5
        weights_BHLM = scores_BHLM.masked_fill(~sees_BHLM, float("-inf")).softmax(-1)
        return weights_BHLM.masked_fill(~sees_BHLM.any(-1, keepdim=True), 0.0)


def _products(q_BHLK: Tensor, k_BHMK: Tensor, v_BHMK: Tensor, mask: Tensor) -> Tensor:
    """Two batched products, for the short memories of a decoding step."""
    shape = (*q_BHLK.shape[:3], k_BHMK.shape[2])
    bias_BHLM = torch.zeros(mask.shape, dtype=q_BHLK.dtype).masked_fill(~mask, float("-inf")).expand(shape)
    bias, q, k, v = (part.flatten(0, 1) for part in (bias_BHLM, q_BHLK, k_BHMK, v_BHMK))
    weights = torch.baddbmm(bias, q, k.mT, alpha=q.shape[-1] ** -0.5).softmax(-1)
    return torch.bmm(weights, v).unflatten(0, shape[:2])
