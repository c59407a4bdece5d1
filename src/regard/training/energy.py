"""Energy of a training in joules: measured by hardware counters where there are any, otherwise estimated.

Counters: NVML for an NVIDIA GPU (Volta or newer; comes with the driver), RAPL for a CPU (files that most systems let only the
administrator read). Both count a whole chip, with all programs on it. Estimates: a GPU draws its board's power limit; a CPU is
estimated by codecarbon where installed, otherwise at 12 W a busy core, as Green Algorithms does for an unknown processor
(Lannelongue et al. 2021). Nothing here needs a network, and a meter that fails never stops a training.
"""

from __future__ import annotations

import ctypes
import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import torch

WATTS_PER_CORE = 12.0
WATTS_PER_GPU = 300.0  # where not even the board's limit can be read
JOULES_PER_KWH = 3.6e6


class Part(Protocol):
    """The meter of one chip. `joules` counts from its creation and never falls; `how` names the source of the number."""

    how: str

    def joules(self) -> float: ...


@dataclass(frozen=True)
class Meter:
    """The meters of all chips of a training."""

    parts: tuple[Part, ...]

    @staticmethod
    def of(device: torch.device, counts_machine: bool = True) -> Meter:
        """Return the best meter for a training on `device`, from zero. One of the processes of a machine counts its CPU."""
        return Meter((*_cpu(counts_machine), *([_gpu(device)] if device.type == "cuda" else [])))

    def joules(self) -> float:
        return sum(part.joules() for part in self.parts)

    @property
    def how(self) -> str:
        return joined(*(part.how for part in self.parts))


def joined(*kinds: str) -> str:
    """Join the sources of a sum, each named once: a run may be resumed on another machine."""
    return " + ".join(dict.fromkeys(kind for several in kinds for kind in several.split(" + ") if kind))


def planned(device: torch.device) -> tuple[float, str]:
    """Return the expected watts of a run and their source: every thread busy, or one thread and the GPU at its limit."""
    if device.type != "cuda":
        return WATTS_PER_CORE * torch.get_num_threads(), BusyCores.how
    board = AtLimit(_watts_allowed(device))
    return WATTS_PER_CORE + board.watts, joined(BusyCores.how, board.how)


class BusyCores:
    """An estimate from the processor time of this process and of its finished children."""

    how = f"estimated: {WATTS_PER_CORE:.0f} W a busy core"

    def __init__(self) -> None:
        self.began = self._seconds()

    def joules(self) -> float:
        return WATTS_PER_CORE * (self._seconds() - self.began)

    @staticmethod
    def _seconds() -> float:
        return sum(os.times()[:4])  # user and system, ours and the children's


class AtLimit:
    """An upper bound: a GPU that always draws the power limit of its board."""

    def __init__(self, watts: float) -> None:
        self.watts, self.how, self.began = watts, f"estimated: {watts:.0f} W a GPU", time.perf_counter()

    def joules(self) -> float:
        return self.watts * (time.perf_counter() - self.began)


class CodeCarbon:
    """The estimate of codecarbon for CPU and memory, received as one of its output handlers; telemetry is off by default.

    codecarbon hides its own errors, so without a number after the first flush it counts as unusable.
    """

    how = "estimated by codecarbon"

    def __init__(self) -> None:
        os.environ.setdefault("CODECARBON_TELEMETRY_LEVEL", "disabled")
        self.kwh: float | None = None
        tracker = import_module("codecarbon").OfflineEmissionsTracker
        logging.getLogger("codecarbon").setLevel(logging.CRITICAL)  # it logs before it applies its own `log_level`
        self.tracker = tracker(
            country_iso_code="USA",  # required; emissions are computed elsewhere
            tracking_mode="process",
            save_to_file=False,
            save_to_api=False,
            log_level="critical",
            output_handlers=[self],
        )
        self.tracker.start()
        self.began = self._flushed()

    def joules(self) -> float:
        return JOULES_PER_KWH * (self._flushed() - self.began)

    def _flushed(self) -> float:
        self.tracker.flush()
        if self.kwh is None:
            raise OSError("codecarbon gives no figure")
        return self.kwh

    def out(self, total: Any, delta: Any) -> None:
        self.kwh = total.cpu_energy + total.ram_energy  # a GPU is a part of its own

    live_out = out

    def exit(self) -> None:
        """Do nothing: codecarbon calls this at its end, and nothing is open."""


def _gpu(device: torch.device) -> Part:
    try:
        return nvml(_board(device))
    except OSError:
        return AtLimit(_watts_allowed(device))


def _watts_allowed(device: torch.device) -> float:
    try:
        return _board(device).watts_allowed()
    except OSError:
        return WATTS_PER_GPU


def _board(device: torch.device) -> Board:
    return Board(str(torch.cuda.get_device_properties(device).uuid))


def _cpu(counts_machine: bool) -> list[Part]:
    try:
        counters = rapl(POWERCAP)
        return list(counters) if counts_machine else []
    except OSError:
        pass
    try:
        return [CodeCarbon() if find_spec("codecarbon") else BusyCores()]
    except OSError:
        return [BusyCores()]


POWERCAP = Path("/sys/class/powercap")


class Counter:
    """Joules since its creation, from a register that wraps to zero after `span` units, or when its driver restarts."""

    def __init__(self, read: Callable[[], int], how: str, per_joule: float, span: int = 0) -> None:
        self.read, self.how, self.per_joule, self.span = read, how, per_joule, span
        self.last, self.total = read(), 0

    def joules(self) -> float:
        """Return joules; read more often than the register wraps (minutes for RAPL).

        A failure ends the count, not the training.
        """
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
    """A GPU in the driver's management library (NVML), found by UUID: CUDA and NVML may number GPUs differently."""

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
    """Return a counter for each processor package and its memory; cores and graphics are included in their package."""
    zones = [zone for zone in sorted(powercap.glob("intel-rapl:*")) if _text(zone / "name").startswith(("package", "dram"))]
    counters = [
        Counter(
            partial(_number, zone / "energy_uj"), "measured by RAPL", per_joule=1e6, span=_number(zone / "max_energy_range_uj")
        )
        for zone in zones
    ]
    if not any(counter.last for counter in counters):  # some virtual machines show registers that stay zero
        raise OSError(f"no RAPL counter runs in {powercap}")
    return counters


def _number(file: Path) -> int:
    return int(_text(file))


def _text(file: Path) -> str:
    return file.read_text("ascii").strip()
