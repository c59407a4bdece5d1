"""Losses over the vocabulary in chunks of tokens, so that the logits of a whole batch are never in memory at once.

A batch of 64 texts of 1,024 tokens has 3.3 billion logits for GPT-2's vocabulary, more than all its other activations. So
the logits of each chunk are computed, its loss taken and its gradient propagated to the hidden vectors and the output matrix at
once. D numbers a token wait for the backward pass, not V. Nothing is computed twice.

Dims: N tokens, D width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.model.embedding import VocabularyHead
from regard.model.layers import product

LogitsLoss = Callable[[Tensor, Tensor], Tensor]
"""(logits_NV, targets_N) -> the loss summed over tokens. Logits may have more dimensions before N."""

CHUNK_BYTES = {"cpu": 2**25, "cuda": 2**30}  # of logits at a time: as many as fit the caches of a CPU, or keep a GPU busy
ALIGNED = 64  # vocabulary entries: a GPU multiplies matrices of other widths at a fraction of its speed
PADDING_SCORE = -1e30  # the logit of a vocabulary entry that is only padding


def chunked_loss(loss: LogitsLoss, head: VocabularyHead, x_ND: Tensor, targets_N: Tensor, fill: bool = False) -> Tensor:
    """Return `loss(head(x_ND), targets_N)`, computed in chunks of the N tokens.

    With `fill`, on a GPU the vocabulary is padded to a multiple of ALIGNED with entries of probability 0, for losses that allow
    it.
    """
    x_ND, project = head.ready(x_ND), head.project
    words = len(project.weight)
    extra = -words % ALIGNED if fill and x_ND.is_cuda else 0
    return _ChunkedLoss.apply(loss, extra, torch.is_grad_enabled(), x_ND, project.weight, project.bias, targets_N)


def cross_entropy(logits_NV: Tensor, targets_N: Tensor) -> Tensor:
    """Return the cross-entropy in nats, summed over tokens."""
    return F.cross_entropy(logits_NV.float(), targets_N, reduction="sum")


class _ChunkedLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        loss: LogitsLoss,
        extra: int,
        with_grad: bool,
        x_ND: Tensor,
        weight_VD: Tensor,
        bias_V: Tensor | None,
        targets_N: Tensor,
    ) -> Tensor:
        learns, words = with_grad and any(ctx.needs_input_grad), len(weight_VD)
        of_chunk = _compiled(loss) if x_ND.is_cuda else loss
        weight_VD, scores_V = _pad_vocabulary(weight_VD, bias_V, extra, x_ND.dtype)
        total = torch.zeros((), dtype=torch.float32, device=x_ND.device)
        x_grad = torch.empty_like(x_ND) if learns else None
        weight_grad = torch.zeros_like(weight_VD, dtype=torch.float32) if learns else None
        bias_grad = x_ND.new_zeros(len(weight_VD), dtype=torch.float32) if learns and bias_V is not None else None
        for begin, end in chunks(x_ND, words):
            part_ND = x_ND[..., begin:end, :]
            logits_NV = product(part_ND, weight_VD, scores_V).requires_grad_(learns)
            with torch.set_grad_enabled(learns):
                value = of_chunk(logits_NV, targets_N[begin:end])
            total += value.detach()
            if x_grad is None or weight_grad is None:
                continue
            (grad_NV,) = torch.autograd.grad(value, logits_NV)
            flat_NV = grad_NV.flatten(0, -2)
            x_grad[..., begin:end, :] = product(grad_NV, weight_VD.T)
            weight_grad += product(part_ND.flatten(0, -2).T, flat_NV.T).T
            if bias_grad is not None:
                bias_grad += flat_NV.sum(0, dtype=torch.float32)
        ctx.grads = x_grad, *(None if grad is None else grad[:words] for grad in (weight_grad, bias_grad))
        return total

    @staticmethod
    def backward(ctx: Any, scale: Tensor) -> tuple[Tensor | None, ...]:
        x_grad, weight_grad, bias_grad = (None if grad is None else grad * scale.to(grad.dtype) for grad in ctx.grads)
        return None, None, None, x_grad, weight_grad, bias_grad, None


def _pad_vocabulary(weight_VD: Tensor, bias_V: Tensor | None, extra: int, dtype: torch.dtype) -> tuple[Tensor, Tensor | None]:
    """Return output matrix and bias in this dtype, padded with `extra` entries of probability 0."""
    if extra:
        bias_V = weight_VD.new_zeros(len(weight_VD)) if bias_V is None else bias_V
        weight_VD, bias_V = F.pad(weight_VD, (0, 0, 0, extra)), F.pad(bias_V, (0, extra), value=PADDING_SCORE)
    return weight_VD.to(dtype), None if bias_V is None else bias_V.to(dtype)


def chunks(x_ND: Tensor, words: int) -> list[tuple[int, int]]:
    """Return begin and end of each chunk: a power of two of equal parts if N allows it, with at most CHUNK_BYTES of logits."""
    tokens = x_ND.shape[-2]
    logits_bytes = x_ND.shape[:-1].numel() * words * x_ND.element_size()
    parts = max(1, -(-logits_bytes // CHUNK_BYTES["cuda" if x_ND.is_cuda else "cpu"]))
    size = max(1, -(-tokens // (1 << (parts - 1).bit_length())))
    return [(begin, min(begin + size, tokens)) for begin in range(0, tokens, size)]


@lru_cache(maxsize=8)
def _compiled(loss: LogitsLoss) -> LogitsLoss:
    """Compile a loss: one kernel for the sums and one for the gradient, instead of ten that each read all logits."""
    return torch.compile(loss, fullgraph=True)
