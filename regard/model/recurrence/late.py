"""A product inside a loop, whose matrix learns once: after the last step, from all steps at a time.

Where a decoder must go word by word, autograd would multiply and add a gradient as large as the matrix at every word. Here each
step backwards only hands its gradient to the step before and leaves behind what the matrix needs; one large product then makes
the matrix's gradient of all that was left. The sums are the same, up to the order of adding.

A matrix may be one for all rows, as a layer's, or each row's own, as what it looks back at.

Dims: R rows (the sequences of a batch), N outputs, K inputs of a matrix, T steps.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.model.linear import product


class Late:
    """W x for as many x_RK as come in one pass, with one weight_NK or each row's own weight_RNK; made anew for each pass."""

    def __init__(self, weight: Tensor) -> None:
        device = weight.device.type
        weight = weight.to(torch.get_autocast_dtype(device)) if torch.is_autocast_enabled(device) else weight
        self.weight = weight.contiguous()  # part of another matrix has gaps, which every step would have to close
        self.left: list[tuple[Tensor, Tensor]] = []
        learns = torch.is_grad_enabled() and weight.requires_grad
        self.last = _Learned.apply(self.weight, self.left) if learns else None

    def __call__(self, x_RK: Tensor, more: Tensor | None = None) -> Tensor:
        """W x, and what there is more: more_RN, or the same more_N for all rows."""
        x_RK, more = x_RK.to(self.weight.dtype), None if more is None else more.to(self.weight.dtype)
        if self.last is None:
            return _plus(_times(self.weight, x_RK), more)
        return _Step.apply(self.last, x_RK, self.weight.detach(), self.left, more)


def _plus(y_RN: Tensor, more: Tensor | None) -> Tensor:
    return y_RN if more is None else y_RN.add_(more)


def _times(weight: Tensor, x_RK: Tensor) -> Tensor:
    return product(x_RK, weight) if weight.dim() == 2 else torch.bmm(x_RK[:, None], weight.mT).squeeze(1)


class _Learned(torch.autograd.Function):
    """Nothing in itself; every step depends on it, so backwards it comes after all of them."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, left: list[tuple[Tensor, Tensor]]) -> Tensor:
        ctx.left, ctx.shape = left, weight.shape
        return weight.new_zeros(())

    @staticmethod
    def backward(ctx: Any, nothing: Tensor) -> tuple[Tensor | None, None]:
        if not ctx.left:
            return nothing.new_zeros(ctx.shape), None
        x, grad = zip(*ctx.left)
        ctx.left.clear()
        if len(ctx.shape) == 2:
            return product(torch.cat(x).T, torch.cat(grad).T).T, None
        return torch.bmm(torch.stack(grad, 2), torch.stack(x, 1)), None


class _Step(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, last: Tensor, x_RK: Tensor, weight: Tensor, left: list[tuple[Tensor, Tensor]], more: Tensor | None
    ) -> Tensor:
        ctx.save_for_backward(x_RK, weight)
        ctx.left, ctx.of_all_rows = left, more is not None and more.dim() == 1
        return _plus(_times(weight, x_RK), more)

    @staticmethod
    def backward(ctx: Any, grad_RN: Tensor) -> tuple[None, Tensor | None, None, None, Tensor | None]:
        x_RK, weight = ctx.saved_tensors
        ctx.left.append((x_RK, grad_RN))
        x_grad_RK = _times(weight.mT, grad_RN) if ctx.needs_input_grad[1] else None
        more_grad = (grad_RN.sum(0) if ctx.of_all_rows else grad_RN) if ctx.needs_input_grad[4] else None
        return None, x_grad_RK, None, None, more_grad
