"""The small layers that blocks are made of: linear, norms, feed-forward.

Linear: x W^T + b, by the products that measure fastest while a model trains.

On a CPU PyTorch hands products of float32 matrices to MKL, which is not at its best on processors of other makers; oneDNN, which
comes with PyTorch too, measures a tenth faster there (docs/log.md). Everywhere else this is `nn.Linear`.

Norms: layer normalisation (Ba et al. 2016) takes each vector to mean 0 and variance 1, then scales and shifts it; RMS
normalisation (Zhang & Sennrich 2019) divides by the root mean square, then scales; batch normalisation (Ioffe & Szegedy 2015)
normalises each feature over a batch. Sums are in float32 whatever the vectors are, and results in the vectors' own type.

Feed-forward: max(0, x W_1 + b_1) W_2 + b_2 (Vaswani et al. 2017, equation 2), or with another activation. Gated (Shazeer 2020),
the activation of a second projection scales the first, contract(activation(gate x) * expand x): with SiLU LLaMA's SwiGLU, with
tanh-GELU T5 1.1's GEGLU.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, Literal

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
    """Return a contiguous copy of a matrix with gaps, with which oneDNN would take a hundred times as long."""
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
        """Return the operations of one product, for torch's counter."""
        return 2 * x_shape.numel() * weight_shape[0]


class Norm(nn.LayerNorm):
    def forward(self, x_BLD: Tensor) -> Tensor:
        return super().forward(x_BLD).to(x_BLD.dtype)


class RMSNorm(nn.RMSNorm):
    """Each vector divided by its root mean square, then scaled by what is learned (Zhang & Sennrich 2019): no mean, no shift."""

    def forward(self, x_BLD: Tensor) -> Tensor:
        normed_BLD = F.rms_norm(x_BLD.float(), self.normalized_shape, None, self.eps)
        return self.weight.to(x_BLD.dtype) * normed_BLD.to(x_BLD.dtype)


NormKind = Literal["layer", "rms"]
NORMS: dict[NormKind, type[Norm] | type[RMSNorm]] = {"layer": Norm, "rms": RMSNorm}


class BatchNorm(nn.Module):
    """Batch normalisation without a learned scale and shift; rows of a batch may be left out of its statistics.

    Half of what is kept is the last batch's: while weights change fast, the mean of ten is old, and validation with it.
    """

    KEPT, EPSILON = 0.5, 1e-5

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("mean_D", torch.zeros(width))
        self.register_buffer("variance_D", torch.ones(width))
        self.mean_D: Tensor
        self.variance_D: Tensor

    def forward(self, x_ND: Tensor, counts_N: Tensor) -> Tensor:
        """`counts_N` is true of what the batch is made of; the others are measured by it."""
        exact_ND, mean_D, variance_D = x_ND.float(), self.mean_D, self.variance_D
        if self.training:
            share_N1 = (counts_N / counts_N.sum().clamp(min=1))[:, None]
            mean_D = (share_N1 * exact_ND).sum(0)
            variance_D = (share_N1 * (exact_ND - mean_D).square()).sum(0)
            with torch.no_grad():
                self.mean_D.mul_(self.KEPT).add_(mean_D, alpha=1 - self.KEPT)
                self.variance_D.mul_(self.KEPT).add_(variance_D, alpha=1 - self.KEPT)
        return ((exact_ND - mean_D) * (variance_D + self.EPSILON).rsqrt()).to(x_ND.dtype)


Activation = Literal["relu", "gelu", "gelu_tanh", "silu"]  # gelu_tanh is GPT-2's approximation of gelu
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "silu": F.silu,
}
FeedForwardKind = Literal["plain", "gated"]


class FeedForward(nn.Module):
    def __init__(
        self, width: int, inner: int, activation: Activation, dropout: float = 0.0, *, gated: bool = False, bias: bool = True
    ) -> None:
        super().__init__()
        self.expand = Linear(width, inner, bias=bias)
        self.gate = Linear(width, inner, bias=bias) if gated else None
        self.contract = Linear(inner, width, bias=bias)
        self.activation = ACTIVATIONS[activation]
        self.dropout = nn.Dropout(dropout)

    def extra_repr(self) -> str:
        return f"D={self.contract.out_features} F={self.contract.in_features}"

    def forward(self, x_BLD: Tensor) -> Tensor:
        if self.gate is None:
            return self.contract(self.dropout(self.activation(self.expand(x_BLD))))
        return self.contract(self.dropout(self.activation(self.gate(x_BLD)) * self.expand(x_BLD)))
