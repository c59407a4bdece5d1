"""Ctrl-C and SIGTERM ask the loop to stop after the step in hand; a second Ctrl-C stops at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType


@dataclass
class Interrupt:
    signal: int | None = None  # the one that came

    def __bool__(self) -> bool:
        return self.signal is not None

    @property
    def exit_code(self) -> int:
        return 128 + (self.signal or 0)


@contextmanager
def interruptible() -> Iterator[Interrupt]:
    interrupt = Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield interrupt  # only the main thread may listen; a notebook's worker is stopped by its kernel
        return

    def ask(number: int, _: FrameType | None) -> None:
        if interrupt and number == signal.SIGINT:  # a second SIGTERM may come from torchrun's or SLURM's own care
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
