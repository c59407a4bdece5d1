"""The additive score in a loop on a CPU: w^T tanh(q + k) of one query after the other with the same keys, which learn last.

A CPU takes six times as long for a tanh as for a sigmoid, so with g = sigmoid(2 x) it is tanh(x) = 2 g - 1, whose slope is
4 g (1 - g). Of the gradient s of each word's scores autograd would make one as large as all tangents, and add it to that of
the keys; all that is needed are sums:

    to q   4 w sum_m s g (1 - g)          a row times a matrix, at each word
    to k   4 w sum_t s g (1 - g)          over words first; w comes after the loop
    to w   sum_tm s (2 g - 1)

Dims: B batch, M memory length, K head width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass
class _Left:
    """What steps leave behind for keys and weight."""

    slopes_BMK: Tensor
    weight_K: Tensor


class LateTangents:
    """scores_BM for as many q_BK as come in one pass; made anew for each pass."""

    def __init__(self, k_BMK: Tensor, weight_K: Tensor) -> None:
        self.twice_BMK, self.weight_K = 2 * k_BMK, weight_K
        self.left: list[_Left] = []
        learns = torch.is_grad_enabled() and (k_BMK.requires_grad or weight_K.requires_grad)
        self.last = _Learned.apply(self.twice_BMK, self.weight_K, self.left) if learns else None

    def __call__(self, q_BK: Tensor) -> Tensor:
        if self.last is None:
            return _scores(_sigmoids(q_BK, self.twice_BMK), self.weight_K)
        return _Step.apply(self.last, q_BK, self.twice_BMK.detach(), self.weight_K.detach(), self.left)


def _sigmoids(q_BK: Tensor, twice_BMK: Tensor) -> Tensor:
    return ((2 * q_BK)[:, None] + twice_BMK).sigmoid_()


def _scores(g_BMK: Tensor, weight_K: Tensor) -> Tensor:
    return g_BMK @ (2 * weight_K) - weight_K.sum()


class _Learned(torch.autograd.Function):
    """Nothing in itself; every step depends on it, so backwards it comes after all of them."""

    @staticmethod
    def forward(ctx: Any, twice_BMK: Tensor, weight_K: Tensor, left: list[_Left]) -> Tensor:
        ctx.save_for_backward(weight_K)
        ctx.left, ctx.shape = left, twice_BMK.shape
        return twice_BMK.new_zeros(())

    @staticmethod
    def backward(ctx: Any, nothing: Tensor) -> tuple[Tensor, Tensor, None]:
        (weight_K,) = ctx.saved_tensors
        if not ctx.left:
            return nothing.new_zeros(ctx.shape), torch.zeros_like(weight_K), None
        left = ctx.left.pop()
        return left.slopes_BMK.mul_(2 * weight_K), left.weight_K, None  # twice, since twice the key is what was given


class _Step(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, last: Tensor, q_BK: Tensor, twice_BMK: Tensor, weight_K: Tensor, left: list[_Left]) -> Tensor:
        g_BMK = _sigmoids(q_BK, twice_BMK)
        ctx.save_for_backward(g_BMK, weight_K)
        ctx.left = left
        return _scores(g_BMK, weight_K)

    @staticmethod
    def backward(ctx: Any, grad_BM: Tensor) -> tuple[None, Tensor, None, None, None]:
        g_BMK, weight_K = ctx.saved_tensors
        to_weight_K = 2 * torch.mv(g_BMK.flatten(0, 1).T, grad_BM.flatten()) - grad_BM.sum()
        slopes_BMK = torch.addcmul(g_BMK, g_BMK, g_BMK, value=-1)
        to_q_BK = torch.bmm(grad_BM[:, None], slopes_BMK).squeeze(1) * (4 * weight_K)
        if ctx.left:
            (left,) = ctx.left
            left.weight_K += to_weight_K
            left.slopes_BMK.addcmul_(grad_BM[..., None], slopes_BMK)
        else:
            ctx.left.append(_Left(slopes_BMK.mul_(grad_BM[..., None]), to_weight_K))
        return None, to_q_BK, None, None, None
