"""Where a run stands, and what it has cost so far: time and energy, over all the processes that have continued it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from regard.training.config import TrainConfig
from regard.training.distributed import World
from regard.training.energy import Meter, joined


@dataclass(frozen=True)
class Progress:
    """All that a checkpoint holds beside tensors."""

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    best: float | None = None  # of what train.best names, so far
    best_nll: float | None = None  # there
    best_step: int = 0
    worse: int = 0  # validations since
    accumulate: int = 0  # micro-batches a step, where memory asked for more than the recipe
    joules: float = 0.0
    metered: str = ""  # how the joules were found


def done(config: TrainConfig, progress: Progress) -> bool:
    """All steps taken, or patience lost."""
    return progress.step >= config.steps or 0 < config.patience <= progress.worse


class Gauge:
    """A clock and a meter that go on from where a run stood."""

    def __init__(self, meter: Meter, world: World, progress: Progress) -> None:
        self.meter, self.world = meter, world
        self.began, self.drawn = time.perf_counter() - progress.seconds, progress.joules
        self.begin(progress)

    def read(self, progress: Progress) -> Progress:
        seconds, joules = time.perf_counter() - self.began, self.drawn + self.world.added(self.meter.joules())
        return replace(progress, seconds=seconds, joules=joules, metered=joined(progress.metered, self.meter.how))

    def begin(self, progress: Progress) -> None:
        """Measure the speed from here."""
        self.since, self.tokens = time.perf_counter(), progress.tokens

    def speed(self, progress: Progress) -> float:
        """Tokens a second."""
        return (progress.tokens - self.tokens) / (time.perf_counter() - self.since)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """The run goes on, but what is done inside says nothing of its speed."""
        paused = time.perf_counter()
        yield
        self.since += time.perf_counter() - paused
