"""Energy counters that the hardware keeps: NVML's for an NVIDIA GPU, RAPL for a CPU. Both count a whole chip, whoever uses it.

NVML comes with the driver and is spoken to directly; its counter needs Volta or newer. RAPL is a few files, which most systems
let only the administrator read. Whatever cannot be read is an OSError.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

POWERCAP = Path("/sys/class/powercap")


class Counter:
    """Joules since it was made, from a register that grows until it starts again: after `span` units, or with its driver."""

    def __init__(self, read: Callable[[], int], how: str, per_joule: float, span: int = 0) -> None:
        self.read, self.how, self.per_joule, self.span = read, how, per_joule, span
        self.last, self.total = read(), 0

    def joules(self) -> float:
        """Read it more often than it starts again, which takes RAPL some minutes. A failure ends the count, not the training."""
        try:
            now = self.read()
        except OSError:
            self.how = f"{self.how.removesuffix(', in part')}, in part"
        else:
            self.total += now - self.last if now >= self.last else now + (self.span or self.last) - self.last
            self.last = now
        return self.total / self.per_joule


def nvml(board: Board) -> Counter:
    return Counter(board.millijoules, "measured by NVML", per_joule=1e3)


class Board:
    """A GPU as its driver's management library knows it, found by UUID: CUDA and NVML may number GPUs differently."""

    def __init__(self, uuid: str, library: str = "libnvidia-ml.so.1") -> None:
        self.library, self.handle = ctypes.CDLL(library), ctypes.c_void_p()
        self._call("nvmlInit_v2")
        self._call("nvmlDeviceGetHandleByUUID", f"GPU-{uuid}".encode(), ctypes.byref(self.handle))

    def millijoules(self) -> int:
        value = ctypes.c_ulonglong()
        self._call("nvmlDeviceGetTotalEnergyConsumption", self.handle, ctypes.byref(value))
        return value.value

    def watts_allowed(self) -> float:
        milliwatts = ctypes.c_uint()
        self._call("nvmlDeviceGetEnforcedPowerLimit", self.handle, ctypes.byref(milliwatts))
        return milliwatts.value / 1e3

    def _call(self, name: str, *arguments: Any) -> None:
        function = getattr(self.library, name, None)
        if function is None or (code := function(*arguments)):
            raise OSError(f"NVML has no {name}" if function is None else f"{name} answered {code}")


def rapl(powercap: Path) -> list[Counter]:
    """A counter for each processor package and each memory beside one; cores and graphics are in their package's figure."""
    zones = [zone for zone in sorted(powercap.glob("intel-rapl:*")) if _text(zone / "name").startswith(("package", "dram"))]
    counters = [
        Counter(
            partial(_number, zone / "energy_uj"), "measured by RAPL", per_joule=1e6, span=_number(zone / "max_energy_range_uj")
        )
        for zone in zones
    ]
    if not any(counter.last for counter in counters):  # some virtual machines show registers that stand at zero
        raise OSError(f"no RAPL counter runs in {powercap}")
    return counters


def _number(file: Path) -> int:
    return int(_text(file))


def _text(file: Path) -> str:
    return file.read_text("ascii").strip()
