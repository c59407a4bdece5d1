"""The precision that suits a device, by what torch or the system says of it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from regard.training import compile as compilation
from regard.training.compile import fastest_precision

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [
        ({"avx512_f": True, "avx512_bf16": False, "amx_bf16": False}, "fp32"),
        ({"avx512_f": True, "avx512_bf16": True, "amx_bf16": False}, "bf16"),
        ({"avx512_f": True, "avx512_bf16": False, "amx_bf16": True}, "bf16"),
        ({"avx2": True, "cpu_name": "one that is called bf16"}, "fp32"),
    ],
)
def test_a_cpu_by_what_torch_knows_of_it(capabilities: dict[str, object], expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compilation._cpu_multiplies_bf16.cache_clear()
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities, raising=False)
    assert fastest_precision(CPU) == expected
    compilation._cpu_multiplies_bf16.cache_clear()


@pytest.mark.parametrize(
    ("flags", "expected"), [("fpu avx2 fma", "fp32"), ("fpu avx512_bf16", "bf16"), ("fp asimd bf16", "bf16")]
)
def test_a_cpu_of_which_torch_knows_nothing(flags: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compilation._cpu_multiplies_bf16.cache_clear()
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    monkeypatch.setattr(compilation, "CPU_FLAGS", tmp_path / "cpuinfo")
    (tmp_path / "cpuinfo").write_text(f"processor: 0\nflags: {flags}\n")
    assert fastest_precision(CPU) == expected
    compilation._cpu_multiplies_bf16.cache_clear()
