"""A clock and a meter that go on from where a run stood; what is done in a pause says nothing of the speed."""

from __future__ import annotations

import pytest

from regard.training import progress as module
from regard.training.config import TrainConfig
from regard.training.distributed import World
from regard.training.energy import Meter
from regard.training.progress import Gauge, Progress, done


class Counter:
    how, drawn = "counted", 0.0

    def joules(self) -> float:
        return self.drawn


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(module.time, "perf_counter", lambda: now[0])
    return now


def test_it_goes_on_from_where_the_run_stood(clock: list[float]) -> None:
    counter = Counter()
    gauge = Gauge(Meter((counter,)), World(), Progress(tokens=50, seconds=7.0, joules=3.0, metered="estimated"))
    clock[0], counter.drawn = 104.0, 2.5
    found = gauge.read(Progress(step=9, tokens=90, metered="estimated"))
    assert found == Progress(step=9, tokens=90, seconds=11.0, joules=5.5, metered="estimated + counted")


def test_speed_is_that_since_it_was_begun_without_pauses(clock: list[float]) -> None:
    gauge = Gauge(Meter(()), World(), Progress(tokens=50))
    clock[0] = 102.0
    with gauge.paused():
        clock[0] = 130.0
    clock[0] = 132.0
    assert gauge.speed(Progress(tokens=90)) == 10.0
    gauge.begin(Progress(tokens=90))
    clock[0] = 133.0
    assert gauge.speed(Progress(tokens=120)) == 30.0
    assert gauge.read(Progress()).seconds == 33.0  # in which pauses count


@pytest.mark.parametrize(
    ("progress", "patience", "over"),
    [
        (Progress(step=9), 0, False),
        (Progress(step=10), 0, True),
        (Progress(step=3, worse=2), 0, False),
        (Progress(step=3, worse=2), 2, True),
        (Progress(step=3, worse=1), 2, False),
    ],
)
def test_it_ends_after_its_steps_or_its_patience(progress: Progress, patience: int, over: bool) -> None:
    assert done(TrainConfig(steps=10, patience=patience, warmup=1), progress) is over
