"""Signals: Ctrl-C and SIGTERM stop the training loop after the current step; a second Ctrl-C stops at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType


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
