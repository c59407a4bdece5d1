"""The learning rate against the paper's formula, and at the ends of every schedule."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import get_args, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.training.config import TrainConfig
from regard.training.schedule import learning_rate

SCHEDULES = get_args(get_type_hints(TrainConfig)["schedule"])
DECAYING = ["inverse_sqrt", "cosine", "linear"]


def config(schedule: str, steps: int = 1000, warmup: int = 100, peak: float = 0.01) -> TrainConfig:
    return TrainConfig(steps=steps, schedule=schedule, warmup=warmup, learning_rate=peak)  # type: ignore[arg-type]


def rates(config: TrainConfig) -> list[float]:
    return [learning_rate(config, step) for step in range(1, config.steps + 1)]


@pytest.mark.parametrize("step", [1, 2, 100, 3999, 4000, 4001, 16_000, 100_000, 300_000])
def test_inverse_sqrt_is_equation_3(step: int) -> None:
    width, warmup = 512, 4000
    paper = width**-0.5 * min(step**-0.5, step * warmup**-1.5)
    ours = config("inverse_sqrt", steps=300_000, warmup=warmup, peak=(width * warmup) ** -0.5)
    assert learning_rate(ours, step) == pytest.approx(paper, rel=1e-12)


def test_the_default_peak_is_that_of_the_base_model() -> None:
    assert TrainConfig(steps=1).learning_rate == pytest.approx((512 * 4000) ** -0.5, rel=2e-3)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_warm_up_is_a_straight_line_to_the_peak(schedule: str) -> None:
    found = rates(config(schedule))
    assert found[:100] == pytest.approx([0.01 * step / 100 for step in range(1, 101)])
    assert max(found) == pytest.approx(0.01)


@pytest.mark.parametrize("schedule", DECAYING)
def test_the_peak_is_at_the_end_of_the_warm_up_and_nowhere_else(schedule: str) -> None:
    found = rates(config(schedule))
    assert found.index(max(found)) + 1 == 100
    assert all(later < earlier for earlier, later in pairwise(found[99:]))


def test_constant_stays() -> None:
    assert rates(config("constant"))[99:] == pytest.approx([0.01] * 901)


@pytest.mark.parametrize("schedule", ["cosine", "linear"])
def test_cosine_and_linear_end_near_zero_but_waste_no_step(schedule: str) -> None:
    assert 0 < rates(config(schedule))[-1] < 0.01 / 500


def test_half_way_cosine_and_linear_are_at_half() -> None:
    for schedule in ("cosine", "linear"):
        assert learning_rate(config(schedule, steps=999, warmup=0), 500) == pytest.approx(0.005)


def test_a_quarter_of_the_way_cosine_is_still_high() -> None:
    assert learning_rate(config("cosine", steps=999, warmup=0), 250) == pytest.approx(0.01 * (1 + math.sqrt(0.5)) / 2)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_no_warm_up_begins_at_the_peak(schedule: str) -> None:
    found = rates(config(schedule, warmup=0))
    assert found[0] == pytest.approx(0.01, rel=2e-3)
    assert max(found) == found[0]


@settings(max_examples=60)
@given(st.sampled_from(SCHEDULES), st.integers(1, 300), st.integers(0, 300), st.floats(1e-9, 1e3))
def test_a_rate_is_never_zero_nor_above_the_peak(schedule: str, steps: int, warmup: int, peak: float) -> None:
    if schedule in ("cosine", "linear"):
        warmup = min(warmup, steps - 1)
    for rate in rates(config(schedule, steps, warmup, peak)):
        assert 0 < rate <= peak * (1 + 1e-12)
