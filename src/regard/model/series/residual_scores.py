"""Residual attention: every layer adds the scores of the layer below to its own, before the softmax.

He et al. 2021, "RealFormer: Transformer likes residual attention"; in PatchTST as published (Nie et al. 2023).

    S_n = Q_n K_n^T / sqrt(K) + S_(n-1),  S_0 = 0        weights_n = softmax(S_n)

For attention this is a bias that depends on queries and keys, so it is a position scheme without any positions. Scores are
computed once and kept, in place of a fused kernel, which keeps none: little memory for some forty patches.

Dims: B batch, H heads, M tokens, K head width.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.model.position.base import Bias, Placement, Position
from regard.model.visibility import View


class ResidualScores(Position):
    """Scores of the layer below as a bias. Layers run in order, and each once: no activation checkpointing."""

    def over(self, view: View) -> Placement:
        return _Pass()


class _Pass(Placement):
    """One pass through the layers, with the sum of the scores so far."""

    def __init__(self) -> None:
        self.sum_BHMM: Tensor | None = None

    def bias(self, q_BHLK: Tensor, k_BHMK: Tensor) -> Bias | None:
        own_BHMM = q_BHLK * q_BHLK.shape[-1] ** -0.5 @ k_BHMK.mT
        before = torch.zeros_like(own_BHMM[:1, :1, :1, :1]).expand_as(own_BHMM) if self.sum_BHMM is None else self.sum_BHMM
        scores = self.sum_BHMM = own_BHMM if self.sum_BHMM is None else own_BHMM + self.sum_BHMM
        rows, heads, queries, keys = scores.shape
        shape = (rows, heads, queries, keys)
        return Bias(lambda b, h, i, j: before[b, h, i, j], shape, scores.device, whole=lambda: before, scores=scores)
