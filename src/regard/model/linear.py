"""x W^T + b, by the products that measure fastest while a model trains.

On a CPU PyTorch hands products of float32 matrices to MKL, which is not at its best on processors of other makers; oneDNN, which
comes with PyTorch too, measures a tenth faster there (docs/log.md). Everywhere else this is `nn.Linear`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.flop_counter import register_flop_formula

ONEDNN = torch.backends.mkldnn.is_available()
LARGE = 2**26  # multiplications: in smaller products the time it takes to ask for them counts more than who computes them


def autocast_dtype(device: str) -> torch.dtype | None:
    """Return the dtype of autocast on this kind of device, None where it is off; the meta device has none."""
    return torch.get_autocast_dtype(device) if device != "meta" and torch.is_autocast_enabled(device) else None


def without_autocast(device: str) -> AbstractContextManager[Any]:
    return nullcontext() if device == "meta" else torch.autocast(device, enabled=False)


class Linear(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        plain = x.device.type == "cpu" and x.dtype == self.weight.dtype == torch.float32
        traced = torch.compiler.is_compiling() or torch.is_autocast_enabled("cpu")
        large = x.numel() * self.out_features >= LARGE and x.dim() > 1
        if plain and large and ONEDNN and torch.is_grad_enabled() and not traced:
            return _Product.apply(x.reshape(-1, x.shape[-1]), self.weight, self.bias).unflatten(0, x.shape[:-1])
        return F.linear(x, self.weight, self.bias)


def product(x_NK: Tensor, y_MK: Tensor, bias_M: Tensor | None = None) -> Tensor:
    """x y^T (+ bias): float32 matrices on a CPU by oneDNN, others by whatever PyTorch takes."""
    plain = x_NK.device.type == "cpu" and x_NK.dtype == torch.float32
    if ONEDNN and plain and x_NK.numel() and not torch.compiler.is_compiling():
        return torch.ops.mkldnn._linear_pointwise(_whole(x_NK), _whole(y_MK), bias_M, "none", [], "")
    return F.linear(x_NK, y_MK, bias_M)


def _whole(x_NK: Tensor) -> Tensor:
    """Of a matrix with gaps, such as some columns of another, a copy: oneDNN would take a hundred times as long."""
    return x_NK if x_NK.is_contiguous() or x_NK.mT.is_contiguous() else x_NK.contiguous()


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_NK: Tensor, weight_MK: Tensor, bias_M: Tensor | None) -> Tensor:
        ctx.save_for_backward(x_NK, weight_MK)
        ctx.biased = bias_M is not None
        return product(x_NK, weight_MK, bias_M)

    @staticmethod
    def backward(ctx: Any, grad_NM: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        x_NK, weight_MK = ctx.saved_tensors
        x_grad = product(grad_NM, weight_MK.T) if ctx.needs_input_grad[0] else None
        weight_grad = product(x_NK.T, grad_NM.T).T if ctx.needs_input_grad[1] else None  # this way round measures faster
        return x_grad, weight_grad, grad_NM.sum(0) if ctx.biased else None


if ONEDNN:

    @register_flop_formula(torch.ops.mkldnn._linear_pointwise)
    def _operations(x_shape: torch.Size, weight_shape: torch.Size, *_: Any, **__: Any) -> int:
        """So that torch's own counter does not pass them over."""
        return 2 * x_shape.numel() * weight_shape[0]
