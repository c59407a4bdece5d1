"""x + y and norm(x + y) of every row, in one kernel. Dims: R rows, D width.

How one kernel of a step follows the other: on Hopper and later, it is launched while the one before still runs.

A step is a chain of kernels of a few microseconds, and a launch takes one of them. With programmatic dependent launch a kernel
comes up early, asks for what does not depend on the chain (its weights), and then waits. Every kernel of the chain must wait: so
each knows that all before it are through, not only the last.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

# mypy: allow-untyped-defs, allow-incomplete-defs


def add_norm(x_RD: Tensor, y_RD: Tensor | None, norm: nn.LayerNorm) -> tuple[Tensor, Tensor]:
    """Return the sum and its norm; without `y_RD`, x itself and its norm."""
    rows, width = x_RD.shape
    sum_RD, normed_RD = x_RD if y_RD is None else torch.empty_like(x_RD), torch.empty_like(x_RD)
    block = triton.next_power_of_2(width)
    arguments = (x_RD, y_RD, norm.weight, norm.bias, sum_RD, normed_RD, width, norm.eps)
    _add_norm[(rows,)](*arguments, BLOCK=block, num_warps=4 if block <= 2048 else 8)
    return sum_RD, normed_RD


@triton.jit
def _add_norm(x, y, scale, shift, sum_, normed, width, epsilon, BLOCK: tl.constexpr):
    d_D = tl.arange(0, BLOCK)
    inside_D, row = d_D < width, tl.program_id(0).to(tl.int64) * width
    x_D = tl.load(x + row + d_D, mask=inside_D, other=0.0).to(tl.float32)
    if y is not None:
        x_D += tl.load(y + row + d_D, mask=inside_D, other=0.0).to(tl.float32)
        x_D = x_D.to(sum_.dtype.element_ty)  # the norm is of what others will read
        tl.store(sum_ + row + d_D, x_D, mask=inside_D)
        x_D = x_D.to(tl.float32)
    off_D = tl.where(inside_D, x_D - tl.sum(x_D, 0) / width, 0.0)
    rate = tl.rsqrt(tl.sum(off_D * off_D, 0) / width + epsilon)
    scale_D = tl.load(scale + d_D, mask=inside_D, other=0.0).to(tl.float32)
    shift_D = tl.load(shift + d_D, mask=inside_D, other=0.0).to(tl.float32)
    tl.store(normed + row + d_D, (off_D * rate * scale_D + shift_D).to(normed.dtype.element_ty), mask=inside_D)


# mypy: allow-untyped-defs, allow-incomplete-defs


OVERLAP = True


def overlapping(x_RD: Tensor) -> bool:
    """Return the launch option for overlapping kernels; with several rows, between the library's kernels, it measured slower."""
    return OVERLAP and x_RD.is_cuda and len(x_RD) == 1 and torch.cuda.get_device_capability(x_RD.device) >= (9, 0)


@triton.jit
def follow(OVERLAP: tl.constexpr):
    """Wait until all kernels before have written, and let the next kernel launch."""
    if OVERLAP:
        tl.extra.cuda.gdc_wait()
        tl.extra.cuda.gdc_launch_dependents()
