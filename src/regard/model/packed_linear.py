"""Weights laid out for a CPU's matrix kernels, once, for a model that answers.

A decoding step multiplies a few vectors by every matrix of the model. PyTorch's own product rearranges the matrix each time,
which then costs more than the product; oneDNN takes one that was rearranged before. A single vector then waits for memory only,
so fewer bytes are more speed: `bfloat16` keeps 8 bits of a weight's mantissa, half of the bytes; `int8` rounds weights to 8 bits
with one scale an output, and inputs as they come (dynamic quantisation), a quarter of the bytes. Both for a little loss.

The parameters stay where they are and keep their names, and serve wherever a gradient is asked for; packing costs a second copy.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.errors import UserError

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
        return F.linear(x, self.weight, self.bias) if torch.is_grad_enabled() else self.fast(x)


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
