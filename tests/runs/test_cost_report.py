"""What a ledger prints is what was spent, in units and proportions that a person can check."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.runs.cost import GRAMS_VARIABLE, POUNDS, CostReport, amount, compared, grams_per_kwh, known_peak, peak_flops

ONE_KWH = CostReport(
    steps=700, tokens=123_456, seconds=50.0, flops=1e13, joules=3.6e6, metered="measured by RAPL", grams_per_kwh=445.0, peak=None
)
POUND = 453.59237


def test_a_kilowatt_hour_is_what_it_is() -> None:
    assert ONE_KWH.watt_hours == 1000
    assert ONE_KWH.grams == 445
    assert ONE_KWH.flops_per_second == 2e11


def test_a_ledger_for_people() -> None:
    assert ONE_KWH.lines() == [
        "700 steps, 123,456 target tokens, 0:50 of training",
        "1.00e13 floating-point operations (counted), 200 GFLOP/s on average",
        "1.00 kWh (measured by RAPL), 445 g CO2 at 445 g/kWh: 1 / 2,000 of a return flight New York-San Francisco for one",
    ]


def test_utilisation_is_stated_where_the_peak_is_known() -> None:
    assert replace(ONE_KWH, peak=8e11).speed().endswith("200 GFLOP/s on average, 25.0% of the device's peak (MFU)")
    assert "MFU" not in ONE_KWH.speed()
    assert ONE_KWH.mfu is None


def test_a_run_from_before_there_were_meters_says_so() -> None:
    assert replace(ONE_KWH, joules=0.0, metered="").energy() == "energy was not metered"


def test_nothing_trained_is_no_division_by_zero() -> None:
    nothing = CostReport(0, 0, 0.0, 0.0, 0.0, "measured by NVML", 445.0, 1e12)
    assert nothing.mfu == 0
    assert nothing.energy() == "0.00 mWh (measured by NVML), 0.00 mg CO2 at 445 g/kWh"


def test_a_ledger_for_machines() -> None:
    figures = replace(ONE_KWH, peak=8e11).figures()
    assert json.loads(json.dumps(figures)) == figures
    assert (figures["tokens"], figures["mfu"], figures["watt_hours"], figures["grams_co2"]) == (123_456, 0.25, 1000, 445)
    assert (figures["metered"], figures["grams_per_kwh"]) == ("measured by RAPL", 445)


def test_the_grid_is_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(GRAMS_VARIABLE, raising=False)
    assert grams_per_kwh() == 445
    for given_, grams in (("56.5", 56.5), (" 0 ", 0), ("", 445)):
        monkeypatch.setenv(GRAMS_VARIABLE, given_)
        assert grams_per_kwh() == grams


@pytest.mark.parametrize("wrong", ["green", "-1", "nan", "inf", "445 g", "4,5"])
def test_a_wrong_grid_is_named(monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    monkeypatch.setenv(GRAMS_VARIABLE, wrong)
    with pytest.raises(UserError, match=re.escape(f"REGARD_GRAMS_CO2_PER_KWH={wrong} ")):
        grams_per_kwh()


def test_the_benchmarks_are_the_lectures() -> None:
    assert list(POUNDS.values()) == [1_984, 11_023, 36_156, 126_000, 626_155]
    for name, pounds in POUNDS.items():
        assert compared(pounds * POUND) == f": 1 x {name}"


@settings(max_examples=80)
@given(st.floats(1e-6, 1e12))
def test_a_comparison_is_true_and_the_nearest(grams: float) -> None:
    text = compared(grams)
    name = next(name for name in POUNDS if text.endswith(name))
    if found := re.match(r": 1 / ([\d,]+) of ", text):
        share = 1 / int(found[1].replace(",", ""))
        assert name == next(iter(POUNDS))
    else:
        share = float(re.match(r": (\S+) x ", text)[1])
    assert share * POUNDS[name] * POUND == pytest.approx(grams, rel=0.06)
    assert all(max(share, 1 / share) <= 1.07 * max(o, 1 / o) for pounds in POUNDS.values() if (o := grams / (pounds * POUND)))


@settings(max_examples=80)
@given(st.floats(1, 999_000_000))
def test_an_amount_keeps_three_digits(value: float) -> None:
    number, unit = amount(value, "mg", "g", "kg").split()
    assert float(number.replace(",", "")) * {"mg": 1, "g": 1e3, "kg": 1e6}[unit] == pytest.approx(value, rel=0.0051)
    assert len(number.replace(".", "")) == 3


def test_an_amount_beyond_its_units() -> None:
    assert amount(12_345_678_900, "mg", "g", "kg") == "12,346 kg"
    assert amount(0.004, "mg", "g") == "0.00 mg"


@pytest.mark.parametrize(
    ("name", "bf16", "fp32"),
    [
        ("NVIDIA H200", 989e12, 67e12),
        ("NVIDIA H100 80GB HBM3", 989e12, 67e12),
        ("NVIDIA H100 PCIe", 756e12, 51e12),
        ("NVIDIA H100 NVL", None, None),
        ("NVIDIA A100-SXM4-80GB", 312e12, 19.5e12),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", None, None),
        ("NVIDIA L40S", 362e12, 91.6e12),
        ("NVIDIA L40", None, None),
        ("NVIDIA L4", 121e12, 30.3e12),
        ("NVIDIA GeForce RTX 4090", 165e12, 82.6e12),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", None, None),
        ("NVIDIA GeForce RTX 4090 D", None, None),
        ("Tesla V100-SXM2-16GB", None, 15.7e12),
        ("Tesla V100-PCIE-16GB", None, None),
        ("Tesla T4", None, 8.1e12),
        ("AMD Instinct MI300X", None, None),
    ],
)
def test_peaks_by_name(name: str, bf16: float | None, fp32: float | None) -> None:
    assert known_peak(name, "bf16") == bf16
    assert known_peak(name, "fp32") == fp32


def test_a_cpu_has_no_known_peak() -> None:
    assert peak_flops(torch.device("cpu"), "fp32") is None
