"""The progress of a run, its cost so far (time and energy, summed over all resumes), and its interruption.

Ctrl-C and SIGTERM stop the training loop after the current step; a second Ctrl-C stops at once.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import FrameType

from regard.training.config import TrainConfig
from regard.training.distributed import World
from regard.training.energy import Meter, joined


@dataclass(frozen=True)
class Progress:
    """The numbers that a checkpoint holds beside tensors."""

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    best: float | None = None  # value of the metric that train.best names
    best_nll: float | None = None  # at that step
    best_step: int = 0
    worse: int = 0  # validations since the best
    accumulate: int = 0  # micro-batches a step, if memory required more than the recipe
    joules: float = 0.0
    metered: str = ""  # source of the joules


def done(config: TrainConfig, progress: Progress) -> bool:
    """Return whether all steps are taken or patience is used up."""
    return progress.step >= config.steps or 0 < config.patience <= progress.worse


class Gauge:
    """A clock and an energy meter that continue from the progress of a run."""

    def __init__(self, meter: Meter, world: World, progress: Progress) -> None:
        self.meter, self.world = meter, world
        self.began, self.drawn = time.perf_counter() - progress.seconds, progress.joules
        self.begin(progress)

    def read(self, progress: Progress) -> Progress:
        """Return the progress with its seconds and joules updated."""
        seconds, joules = time.perf_counter() - self.began, self.drawn + self.world.sum_on_host(self.meter.joules())
        return replace(progress, seconds=seconds, joules=joules, metered=joined(progress.metered, self.meter.how))

    def begin(self, progress: Progress) -> None:
        """Start a measurement of speed."""
        self.since, self.tokens = time.perf_counter(), progress.tokens

    def speed(self, progress: Progress) -> float:
        """Return tokens a second since `begin`."""
        return (progress.tokens - self.tokens) / (time.perf_counter() - self.since)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave the time of this block out of the speed, not out of the run."""
        paused = time.perf_counter()
        yield
        self.since += time.perf_counter() - paused


@dataclass
class Interrupt:
    """True once a signal was received."""

    signal: int | None = None  # that was received

    def __bool__(self) -> bool:
        return self.signal is not None

    @property
    def exit_code(self) -> int:
        return 128 + (self.signal or 0)


@contextmanager
def catch_signals() -> Iterator[Interrupt]:
    """Yield an `Interrupt` that is set by SIGINT and SIGTERM; restore the former handlers at the end."""
    interrupt = Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield interrupt  # only the main thread receives signals; the worker of a notebook is stopped by its kernel
        return

    def ask(number: int, _: FrameType | None) -> None:
        if interrupt and number == signal.SIGINT:  # torchrun and SLURM may send SIGTERM twice
            raise KeyboardInterrupt
        if interrupt:
            return
        interrupt.signal = number

    previous = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield interrupt
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
