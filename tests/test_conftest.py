"""What a test draws is the same on every run, in any order, and in every example of a property test."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import FUZZ

drawn: list[tuple[float, float, float]] = []


@pytest.fixture(scope="module")
def shared() -> float:
    return random.random()


@pytest.mark.parametrize("time", range(2))
def test_every_test_draws_the_same(time: int, shared: float) -> None:
    drawn.append((random.random(), float(np.random.rand()), float(torch.rand(()))))
    assert len(set(drawn)) == 1
    assert shared != drawn[0][0]


seen: list[float] = []


@given(st.integers(0, 9))
@settings(max_examples=5)
def test_every_example_draws_the_same_from_torch(number: int) -> None:
    seen.append(float(torch.rand(())))
    assert len(set(seen)) == 1


@pytest.mark.skipif(FUZZ > 0, reason="fuzzing")
def test_property_tests_depend_on_nothing_but_themselves() -> None:
    assert settings.default.derandomize
    assert settings.default.deadline is None
    assert settings.default.database is None
