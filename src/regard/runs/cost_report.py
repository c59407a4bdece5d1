"""The cost of a run on one page: tokens, operations, time, energy, CO2, and something to compare that with.

CO2 is energy times what a kilowatt-hour emits: 445 g, the world's average in 2024 (IEA, Electricity 2025), unless
REGARD_GRAMS_CO2_PER_KWH says otherwise. MFU (model FLOPs utilisation, Chowdhery et al. 2022) is the part of the device's peak
that went into the model's own operations, and is stated only where that peak is known.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from math import log

import torch

from regard.core.errors import UserError
from regard.training.energy import JOULES_PER_KWH
from regard.training.logging import clock

GRAMS_VARIABLE = "REGARD_GRAMS_CO2_PER_KWH"
WORLD_GRAMS_PER_KWH = 445.0
GRAMS_PER_POUND = 453.59237

POUNDS = {  # of CO2 equivalent; Strubell et al. 2019, table 1, as the lectures show it
    "a return flight New York-San Francisco for one": 1_984,
    "an average human life, one year": 11_023,
    "an average American life, one year": 36_156,
    "a US car, its whole life with fuel": 126_000,
    "a 213M Transformer with architecture search": 626_155,
}

PEAKS = {  # dense operations a second, by words of the device's name: with bf16 (0 where it has none), with fp32
    "H200": (989e12, 67e12),
    "H100": (989e12, 67e12),
    "H100 PCIe": (756e12, 51e12),
    "A100": (312e12, 19.5e12),
    "A10": (125e12, 31.2e12),
    "L40S": (362e12, 91.6e12),
    "L4": (121e12, 30.3e12),
    "RTX 4090": (165e12, 82.6e12),
    "RTX 3090": (71e12, 35.6e12),
    "V100 SXM2": (0, 15.7e12),
    "T4": (0, 8.1e12),
}
OTHER_CHIPS = {"Laptop", "MIG", "NVL", "Ti", "D"}  # of a like name, with another peak


@dataclass(frozen=True)
class CostReport:
    """The cost of a training that was run or is planned. `metered` says how energy was measured; empty: it was not."""

    steps: int
    tokens: int
    seconds: float
    flops: float
    joules: float
    metered: str
    grams_per_kwh: float
    peak: float | None  # operations a second
    unit: str = "target tokens"

    @property
    def watt_hours(self) -> float:
        return self.joules / JOULES_PER_KWH * 1e3

    @property
    def grams(self) -> float:
        return self.joules / JOULES_PER_KWH * self.grams_per_kwh

    @property
    def flops_per_second(self) -> float:
        return self.flops / self.seconds if self.seconds else 0.0

    @property
    def mfu(self) -> float | None:
        return self.flops_per_second / self.peak if self.peak else None

    def figures(self) -> dict[str, int | float | str | None]:
        """All of it as plain numbers, for machines."""
        return vars(self) | {
            "flops_per_second": self.flops_per_second,
            "mfu": self.mfu,
            "watt_hours": self.watt_hours,
            "grams_co2": self.grams,
        }

    def lines(self) -> list[str]:
        """All of it for people."""
        return [self.work(), self.speed(), self.energy()]

    def work(self) -> str:
        return f"{self.steps:,} steps, {self.tokens:,} {self.unit}, {clock(self.seconds)} of training"

    def speed(self) -> str:
        operations = f"{self.flops:.2e}".replace("e+", "e")
        average = f"{amount(self.flops_per_second / 1e9, 'GFLOP/s', 'TFLOP/s', 'PFLOP/s')} on average"
        share = f", {self.mfu:.1%} of the device's peak (MFU)" if self.mfu is not None else ""
        return f"{operations} floating-point operations (counted), {average}{share}"

    def energy(self) -> str:
        if not self.metered:
            return "energy was not metered"
        co2 = f"{amount(1e3 * self.grams, 'mg', 'g', 'kg', 't')} CO2 at {self.grams_per_kwh:g} g/kWh"
        return f"{amount(1e3 * self.watt_hours, 'mWh', 'Wh', 'kWh', 'MWh')} ({self.metered}), {co2}{compared(self.grams)}"


def grams_per_kwh() -> float:
    """Return the grams of CO2 a kilowatt-hour, from the environment. Read before a run, so that a wrong value costs nothing."""
    given = os.environ.get(GRAMS_VARIABLE, "").strip() or str(WORLD_GRAMS_PER_KWH)
    try:
        grams = float(given)
    except ValueError:
        grams = -1.0
    if not 0 <= grams < float("inf"):
        raise UserError(
            f"{GRAMS_VARIABLE}={given} is not a number of grams of CO2 a kilowatt-hour; unset it for the world's average, "
            f"{WORLD_GRAMS_PER_KWH:g}, or give your grid's."
        )
    return grams


def peak_flops(device: torch.device, precision: str) -> float | None:
    """Return the operations a second that a GPU's maker states; None for a GPU that is not in the table, and for every CPU."""
    return known_peak(torch.cuda.get_device_name(device), precision) if device.type == "cuda" else None


def known_peak(name: str, precision: str) -> float | None:
    """Return the peak of the longest key whose words are all in the name: `NVIDIA H100 PCIe` differs from other H100s."""
    words = set(name.replace("-", " ").split())
    found = max((key for key in PEAKS if words.issuperset(key.split())), key=len, default=None)
    if found is None or words & OTHER_CHIPS:
        return None
    return PEAKS[found][0 if precision == "bf16" else 1] or None


def amount(value: float, *units: str) -> str:
    """Three digits in the unit that suits; `value` is in the first one, and each is a thousand of the one before."""
    larger = 0
    while value >= 999.5 and larger < len(units) - 1:
        value, larger = value / 1000, larger + 1
    return f"{value:,.{2 if value < 9.995 else 1 if value < 99.95 else 0}f} {units[larger]}"


def compared(grams: float) -> str:
    """The nearest of the lectures' benchmarks in proportion; nothing compares with nothing."""
    if not grams:
        return ""
    shares = {name: grams / (pounds * GRAMS_PER_POUND) for name, pounds in POUNDS.items()}
    name, share = min(shares.items(), key=lambda item: abs(log(item[1])))
    if share >= 0.1:
        return f": {share:.2g} x {name}"
    return f": 1 / {float(f'{1 / share:.2g}'):,.0f} of {name}"
