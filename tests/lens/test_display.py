"""Numbers for people: none collapses to zero, and no zero has a sign."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.lens.display import brief


@pytest.mark.parametrize(
    ("value", "told"),
    [
        *[(0.25, "0.25"), (1.0, "1.00"), (0.0, "0.00"), (-0.0, "0.00"), (0.05, "0.05"), (0.00031, "0.00031"), (-2e-9, "-2e-09")],
        *[(12.346, "12.35"), (0.0949, "0.095"), (float("nan"), "nan")],
    ],
)
def test_by_hand(value: float, told: str) -> None:
    assert brief(value) == told


def test_signs_and_places() -> None:
    assert brief(0.5, signed=True) == "+0.50"
    assert brief(-0.0004, signed=True) == "-0.0004"
    assert brief(0.0, signed=True) == "0.00"
    assert brief(0.0004, 3) == "0.0004"
    assert brief(-0.0, 3) == "0.000"


@given(st.floats(-1e6, 1e6), st.integers(1, 4), st.booleans())
def test_what_is_told_is_near_what_it_is(value: float, places: int, signed: bool) -> None:
    assert float(brief(value, places, signed=signed)) == pytest.approx(value, rel=0.056)
