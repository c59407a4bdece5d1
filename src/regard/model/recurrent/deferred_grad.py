"""Products inside a loop whose weight gradient is computed once, after the last step, from all steps together.

Where a decoder must go word by word, autograd would multiply and add a gradient as large as the matrix at every word. Here each
step backwards only hands its gradient to the step before and leaves behind what the matrix needs; one large product then makes
the matrix's gradient of all that was left. The sums are the same, up to the order of adding.

A matrix may be one for all rows, as a layer's, or each row's own, as what it looks back at. Where a step is compiled by itself,
this is a plain product: what autograd would do is then part of what is compiled.

Dims: R rows (the sequences of a batch), N outputs, K inputs of a matrix, T steps.

The additive score in a loop on a CPU: w^T tanh(q + k) of one query after the other with the same keys, which learn last.

A CPU takes six times as long for a tanh as for a sigmoid, so with g = sigmoid(2 x) it is tanh(x) = 2 g - 1, whose slope is
4 g (1 - g). Of the gradient s of each word's scores autograd would make one as large as all tangents, and add it to that of
the keys; all that is needed are sums:

    to q   4 w sum_m s g (1 - g)          a row times a matrix, at each word
    to k   4 w sum_t s g (1 - g)          over words first; w comes after the loop
    to w   sum_tm s (2 g - 1)

Dims: B batch, M memory length, K head width.

One query at a time, in a loop, with the same keys and values: a mixer for one pass, whose keys and values learn after it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.model.layers import autocast_dtype, product
from regard.model.mixers.scores import masked
from regard.model.visibility import View

if TYPE_CHECKING:
    from regard.model.mixers import Mixer


class Late:
    """W x + b for the inputs x_RK of one pass, with one weight_NK or each row's own weight_RNK. Create one for each pass."""

    def __init__(self, weight: Tensor, bias_N: Tensor | None = None) -> None:
        dtype = autocast_dtype(weight.device.type) or weight.dtype
        self.weight = weight.to(dtype)
        self.bias_N = None if bias_N is None else bias_N.to(dtype)
        self.left: list[tuple[Tensor, Tensor]] = []
        self.last = None
        if not torch.compiler.is_compiling():
            self.weight = self.weight.contiguous()  # part of another matrix has gaps, which every step would have to close
            self.last = _Learned.apply(self.weight, self.bias_N, self.left) if torch.is_grad_enabled() else None

    def __call__(self, x_RK: Tensor, more_RN: Tensor | None = None) -> Tensor:
        """Return W x + b, plus more_RN if given."""
        x_RK, more_RN = x_RK.to(self.weight.dtype), None if more_RN is None else more_RN.to(self.weight.dtype)
        if self.last is None:
            return _sum(self.weight, x_RK, self.bias_N, more_RN)
        bias_N = None if self.bias_N is None else self.bias_N.detach()
        return _Step.apply(self.last, x_RK, self.weight.detach(), bias_N, self.left, more_RN)


def _sum(weight: Tensor, x_RK: Tensor, bias_N: Tensor | None, more_RN: Tensor | None) -> Tensor:
    y_RN = _times(weight, x_RK, bias_N)
    return y_RN if more_RN is None else y_RN.add_(more_RN)


def _times(weight: Tensor, x_RK: Tensor, bias_N: Tensor | None = None) -> Tensor:
    return product(x_RK, weight, bias_N) if weight.dim() == 2 else torch.bmm(x_RK[:, None], weight.mT).squeeze(1)


class _Learned(torch.autograd.Function):
    """A constant zero that every step depends on, so its backward runs after the backward of all steps."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, bias_N: Tensor | None, left: list[tuple[Tensor, Tensor]]) -> Tensor:
        ctx.left, ctx.shape = left, weight.shape
        return weight.new_zeros(())

    @staticmethod
    def backward(ctx: Any, nothing: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        biased = ctx.needs_input_grad[1]
        if not ctx.left:
            return nothing.new_zeros(ctx.shape), nothing.new_zeros(ctx.shape[0]) if biased else None, None
        x, grad = zip(*ctx.left)
        ctx.left.clear()
        if len(ctx.shape) == 3:
            return torch.bmm(torch.stack(grad, 2), torch.stack(x, 1)), None, None
        grad_RN = torch.cat(grad)
        return product(torch.cat(x).T, grad_RN.T).T, grad_RN.sum(0) if biased else None, None


class _Step(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        last: Tensor,
        x_RK: Tensor,
        weight: Tensor,
        bias_N: Tensor | None,
        left: list[tuple[Tensor, Tensor]],
        more_RN: Tensor | None,
    ) -> Tensor:
        ctx.save_for_backward(x_RK, weight)
        ctx.left = left
        return _sum(weight, x_RK, bias_N, more_RN)

    @staticmethod
    def backward(ctx: Any, grad_RN: Tensor) -> tuple[None, Tensor | None, None, None, None, Tensor | None]:
        x_RK, weight = ctx.saved_tensors
        if ctx.needs_input_grad[0]:
            ctx.left.append((x_RK, grad_RN))
        x_grad_RK = _times(weight.mT, grad_RN) if ctx.needs_input_grad[1] else None
        return None, x_grad_RK, None, None, None, grad_RN if ctx.needs_input_grad[5] else None


@dataclass
class _Left:
    """Sums over steps that the gradients of keys and weight are made of."""

    slopes_BMK: Tensor
    weight_K: Tensor


class LateTangents:
    """Additive scores_BM of the queries q_BK of one pass. Create one for each pass."""

    def __init__(self, k_BMK: Tensor, weight_K: Tensor) -> None:
        self.twice_BMK, self.weight_K = 2 * k_BMK, weight_K
        self.left: list[_Left] = []
        learns = torch.is_grad_enabled() and (k_BMK.requires_grad or weight_K.requires_grad)
        self.last = _TangentWeights.apply(self.twice_BMK, self.weight_K, self.left) if learns else None

    def __call__(self, q_BK: Tensor) -> Tensor:
        if self.last is None:
            return _scores(_sigmoids(q_BK, self.twice_BMK), self.weight_K)
        return _TangentStep.apply(self.last, q_BK, self.twice_BMK.detach(), self.weight_K.detach(), self.left)


def _sigmoids(q_BK: Tensor, twice_BMK: Tensor) -> Tensor:
    return ((2 * q_BK)[:, None] + twice_BMK).sigmoid_()


def _scores(g_BMK: Tensor, weight_K: Tensor) -> Tensor:
    return g_BMK @ (2 * weight_K) - weight_K.sum()


class _TangentWeights(torch.autograd.Function):
    """A constant zero that every step depends on, so its backward runs after the backward of all steps."""

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


class _TangentStep(torch.autograd.Function):
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


class OneByOne:
    """A mixer for one query at a time: `score` returns scores_BM of a q_BK with all keys, by the formula of `mixer`."""

    recurrent_form = None

    def __init__(self, mixer: Mixer, score: Callable[[Tensor], Tensor], v_B1MK: Tensor) -> None:
        self.mixer, self.score, self.values = mixer, score, Late(v_B1MK[:, 0].mT)

    def mix(self, q_B11K: Tensor, k_B1MK: Tensor, v_B1MK: Tensor, view: View, dropout: float = 0.0) -> Tensor:
        scores_BM = masked(self.score(q_B11K[:, 0, 0]), None if view.mask is None else view.mask[:, 0, 0])
        context_B11K = self.values(F.dropout(scores_BM.softmax(-1), dropout))[:, None, None]
        return context_B11K if view.fully_masked_rows is None else context_B11K.masked_fill(view.fully_masked_rows, 0.0)

    def weights(self, q_BHLK: Tensor, k_BHMK: Tensor, sees_BHLM: Tensor) -> Tensor:
        return self.mixer.weights(q_BHLK, k_BHMK, sees_BHLM)
