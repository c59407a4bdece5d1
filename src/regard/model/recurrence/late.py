"""A product inside a loop, whose matrix learns once: after the last step, from all steps at a time.

Where a decoder must go word by word, autograd would multiply and add a gradient as large as the matrix at every word. Here each
step backwards only hands its gradient to the step before and leaves behind what the matrix needs; one large product then makes
the matrix's gradient of all that was left. The sums are the same, up to the order of adding.

A matrix may be one for all rows, as a layer's, or each row's own, as what it looks back at. Where a step is compiled by itself,
this is a plain product: what autograd would do is then part of what is compiled.

Dims: R rows (the sequences of a batch), N outputs, K inputs of a matrix, T steps.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.model.linear import product


class Late:
    """W x + b for as many x_RK as come in one pass, with one weight_NK or each row's own weight_RNK; made anew for each pass."""

    def __init__(self, weight: Tensor, bias_N: Tensor | None = None) -> None:
        device = weight.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight.dtype
        self.weight = weight.to(dtype)
        self.bias_N = None if bias_N is None else bias_N.to(dtype)
        self.left: list[tuple[Tensor, Tensor]] = []
        self.last = None
        if not torch.compiler.is_compiling():
            self.weight = self.weight.contiguous()  # part of another matrix has gaps, which every step would have to close
            self.last = _Learned.apply(self.weight, self.bias_N, self.left) if torch.is_grad_enabled() else None

    def __call__(self, x_RK: Tensor, more_RN: Tensor | None = None) -> Tensor:
        """And what there is more."""
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
    """Nothing in itself; every step depends on it, so backwards it comes after all of them."""

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
