"""Kernels on a GPU, or in Triton's interpreter (TRITON_INTERPRET=1): what their tests share."""

from __future__ import annotations

import os

import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor, nn

from regard.model.kernels import decode_step

INTERPRETING = os.environ.get("TRITON_INTERPRET") == "1"
RUNS = decode_step.HAS_TRITON and (INTERPRETING or torch.cuda.is_available())
DEVICE = torch.device("cpu" if INTERPRETING else "cuda")
EXAMPLES = 10 if INTERPRETING else 100
HALF = [] if INTERPRETING else [torch.bfloat16, torch.float16]  # the interpreter's bf16 is not right
SIZES = st.integers(1, 70)
needs_triton = pytest.mark.skipif(not RUNS, reason="needs Triton, and a CUDA device or TRITON_INTERPRET=1")


def close(found: Tensor, exact: Tensor, dtype: torch.dtype = torch.float32) -> None:
    """Relative to the whole, as rounding is."""
    assert found.isfinite().all()
    assert (found.double() - exact.double()).norm() <= (1e-5 if dtype == torch.float32 else 2e-2) * exact.double().norm() + 1e-30


def lively(module: nn.Module) -> nn.Module:
    """Norms that scale and shift, biases that are not zero."""
    for n, parameter in enumerate(module.parameters()):
        if parameter.dim() == 1:
            parameter.data += 0.5 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(n))
    return module.eval()
