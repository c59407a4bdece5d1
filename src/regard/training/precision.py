"""The fastest precision of a device: bf16 where its hardware multiplies bf16 numbers, fp32 where they would be emulated.

On a CPU without instructions for bf16 a training in bf16 takes about twice as long as in fp32; on one with AVX512-BF16 or AMX it
takes about half as long.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import torch

CPU_FLAGS = Path("/proc/cpuinfo")


def fastest_precision(device: torch.device) -> str:
    """Return `bf16` or `fp32`."""
    return "bf16" if multiplies_bf16(device) else "fp32"


def multiplies_bf16(device: torch.device) -> bool:
    """Return whether the device has instructions for products of bf16 numbers."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return _cpu_multiplies_bf16()


@cache
def _cpu_multiplies_bf16() -> bool:
    """Return whether the CPU has avx512_bf16, amx_bf16 or Arm's bf16, by torch, or by Linux where torch has no list."""
    if hasattr(torch.cpu, "get_capabilities"):  # torch 2.12 and later
        return any("bf16" in name and value is True for name, value in torch.cpu.get_capabilities().items())
    return CPU_FLAGS.is_file() and "bf16" in CPU_FLAGS.read_text("utf-8", errors="replace")
