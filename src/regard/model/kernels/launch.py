"""How one kernel of a step follows the other: on Hopper and later, it is launched while the one before still runs.

A step is a chain of kernels of a few microseconds, and a launch takes one of them. With programmatic dependent launch a kernel
comes up early, asks for what does not depend on the chain (its weights), and then waits. Every kernel of the chain must wait: so
each knows that all before it are through, not only the last.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs
from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

OVERLAP = True


def overlapping(x_RD: Tensor) -> bool:
    """With more than one row, where the library's kernels come between ours, it measured slower."""
    return OVERLAP and x_RD.is_cuda and len(x_RD) == 1 and torch.cuda.get_device_capability(x_RD.device) >= (9, 0)


@triton.jit
def follow(OVERLAP: tl.constexpr):
    """From here on, what the kernel before has written may be read; and the next may come up."""
    if OVERLAP:
        tl.extra.cuda.gdc_wait()
        tl.extra.cuda.gdc_launch_dependents()
