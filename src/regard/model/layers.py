"""The small layers that blocks are made of: linear, norms, feed-forward; and linear layers packed for decoding on a CPU.

Linear: x W^T + b, by the products that measure fastest while a model trains.

On a CPU PyTorch hands products of float32 matrices to MKL, which is not at its best on processors of other makers; oneDNN, which
comes with PyTorch too, measures a tenth faster there (docs/log.md). Everywhere else this is `nn.Linear`.

Norms: layer normalisation (Ba et al. 2016) takes each vector to mean 0 and variance 1, then scales and shifts it; RMS
normalisation (Zhang & Sennrich 2019) divides by the root mean square, then scales; batch normalisation (Ioffe & Szegedy 2015)
normalises each feature over a batch. Sums are in float32 whatever the vectors are, and results in the vectors' own type.

Feed-forward: max(0, x W_1 + b_1) W_2 + b_2 (Vaswani et al. 2017, equation 2), or with another activation. Gated (Shazeer 2020),
the activation of a second projection scales the first, contract(activation(gate x) * expand x): with SiLU LLaMA's SwiGLU, with
tanh-GELU T5 1.1's GEGLU.

Packed: weights laid out for a CPU's matrix kernels, once, for a model that answers. A decoding step multiplies a few vectors by
every matrix of the model. PyTorch's own product rearranges the matrix each time, which then costs more than the product; oneDNN
takes one that was rearranged before. A single vector then waits for memory only, so fewer bytes are more speed: `bfloat16` keeps
8 bits of a weight's mantissa, half of the bytes; `int8` rounds weights to 8 bits with one scale an output, and inputs as they
come (dynamic quantisation), a quarter of the bytes. Both for a little loss. The parameters stay where they are and keep their
names, and serve wherever a gradient is asked for; packing costs a second copy.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.flop_counter import register_flop_formula

from regard.core.errors import UserError

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
        normed_BLD = super().forward(x_BLD)
        return normed_BLD if normed_BLD.dtype == x_BLD.dtype else normed_BLD.to(x_BLD.dtype)


class RMSNorm(nn.RMSNorm):
    """Each vector divided by its root mean square, then scaled by what is learned (Zhang & Sennrich 2019): no mean, no shift."""

    def forward(self, x_BLD: Tensor) -> Tensor:
        if x_BLD.dtype == self.weight.dtype == torch.float32:
            return F.rms_norm(x_BLD, self.normalized_shape, self.weight, self.eps)
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


def _quick_gelu(x: Tensor) -> Tensor:
    return x * torch.sigmoid(1.702 * x)


Activation = Literal["relu", "gelu", "gelu_tanh", "quick_gelu", "silu"]  # GPT-2 and ImageGPT approximate gelu
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "quick_gelu": _quick_gelu,
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
        gated = "" if self.gate is None else " gated"
        return f"D={self.contract.out_features} F={self.contract.in_features}{gated}"

    def forward(self, x_BLD: Tensor) -> Tensor:
        if self.gate is None:
            inner_BLF = self.activation(self.expand(x_BLD))
        else:
            inner_BLF = self.activation(self.gate(x_BLD)) * self.expand(x_BLD)
        return self.contract(self.dropout(inner_BLF) if self.training else inner_BLF)


Weights = Literal["float32", "bfloat16", "int8"]
ROWS = 16  # vectors at a time that the layout is chosen for; from 1 to 64 it measures the same


class PackedLinear(nn.Module):
    """A linear layer whose product is `fast` where no gradient is needed."""

    def __init__(self, linear: nn.Linear | PackedLinear, fast: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.weight: Tensor = linear.weight
        self.bias: Tensor | None = linear.bias
        self.fast = fast

    def forward(self, x: Tensor) -> Tensor:
        if torch.is_grad_enabled() or torch.compiler.is_compiling():  # a compiler lays weights out by itself
            return F.linear(x, self.weight, self.bias)
        return self.fast(x)


def pack(model: nn.Module, weights: Weights = "float32") -> None:
    """Pack every Linear of a model on the CPU, in place. Weights changed afterwards are not seen: pack again."""
    if weights == "int8" and "x86" not in torch.backends.quantized.supported_engines:
        raise UserError("decode.weights=int8 needs an x86 CPU, which this machine is not; leave decode.weights=float32.")
    if weights == "bfloat16" and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        raise UserError("decode.weights=bfloat16 needs a CPU with instructions for it; leave decode.weights=float32 or try int8.")
    if weights == "float32" and not torch.backends.mkldnn.is_available():
        return  # this build of torch has no oneDNN; its plain products are all there is
    kind = {"float32": _blocked, "bfloat16": _halved, "int8": _rounded}[weights]
    for module in list(model.modules()):
        for name, child in module.named_children():
            if isinstance(child, nn.Linear | PackedLinear):
                setattr(module, name, PackedLinear(child, kind(child)))


def _blocked(linear: nn.Linear | PackedLinear) -> Callable[[Tensor], Tensor]:
    weight = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), ROWS)
    bias = None if linear.bias is None else linear.bias.detach()
    return lambda x: torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


def _halved(linear: nn.Linear | PackedLinear) -> Callable[[Tensor], Tensor]:
    half = linear.weight.detach().bfloat16()
    weight = torch.ops.mkldnn._reorder_linear_weight(half, ROWS)
    bias = None if linear.bias is None else linear.bias.detach().bfloat16()
    return lambda x: torch.ops.mkldnn._linear_pointwise(x.bfloat16(), weight, bias, "none", [], "").float()


def _rounded(linear: nn.Linear | PackedLinear) -> Callable[[Tensor], Tensor]:
    weight, bias = linear.weight.detach(), None if linear.bias is None else linear.bias.detach()
    scales = weight.abs().amax(1).clamp(min=1e-12).double() / 127
    with warnings.catch_warnings():  # torch means to retire this tensor type, and so far offers these kernels no other way in
        warnings.simplefilter("ignore")
        rounded = torch.quantize_per_channel(weight, scales, torch.zeros_like(scales, dtype=torch.long), 0, torch.qint8)
    packed = torch.ops.quantized.linear_prepack(rounded, bias)
    # Without VNNI instructions two products are summed in 16 bits and could overflow, so inputs then use 7 bits.
    reduce_range = not torch.cpu._is_vnni_supported()
    return lambda x: torch.ops.quantized.linear_dynamic(x, packed, reduce_range)
