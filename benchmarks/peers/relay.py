"""Trainings that take turns: each in a process of its own, halted from within until it is its turn again.

Another library's trainer calls us, not we it, so it cannot be asked for one step. But wherever it tells how far it is, it can be
kept waiting. Processes start and compile side by side; the clock runs when only one of them does.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from math import inf
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any

import torch


class Baton:
    """With the training: it says what it did, and waits here when that is as much as it was asked for."""

    def __init__(self, pipe: Connection) -> None:
        self.pipe, self.done = pipe, 0
        self.until = self._asked()

    def did(self, texts: int) -> None:
        self.done += texts
        if self.done >= self.until:
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            self.pipe.send(("so far", self.done))
            self.until = self._asked()

    def _asked(self) -> float:
        try:
            return float(self.pipe.recv())
        except EOFError:
            raise SystemExit from None  # nobody asks any more


class Relay:
    """`train(baton, *arguments)` runs over there. It is asked for as many texts as it shall have seen in all."""

    def __init__(self, part: int, train: Callable[..., Any], *arguments: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self.part, self.until, self.name = part, 0.0, train.__name__
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_run, args=(theirs, train, arguments))  # no daemon: it may start loaders
        self.process.start()
        theirs.close()  # so that its end is heard

    def __enter__(self) -> Relay:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.pipe.close()
        if error is not None:
            self.process.terminate()  # it may be in the middle of a part
        self.process.join()

    def __call__(self) -> None:
        """One part more, waited for."""
        self.begin(self.until + self.part)
        self.halted()

    def begin(self, until: float = inf) -> None:
        """Go on up to so many texts, or to the end."""
        self.until = until
        self.pipe.send(until)

    def halted(self) -> int:
        """How many texts it has seen, once it waits."""
        return int(self._hear("so far"))

    def finished(self) -> Any:
        """What it gave back in the end."""
        return self._hear("found")

    def _hear(self, expected: str) -> Any:
        try:
            kind, what = self.pipe.recv()
        except EOFError:
            self.process.join()
            raise SystemExit(f"{self.name} ended with status {self.process.exitcode}; what it said is above") from None
        if kind != expected:
            raise SystemExit(f"{self.name} was expected to say {expected!r} and said {kind!r}: {what}")
        return what


def _run(pipe: Connection, train: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    pipe.send(("found", train(Baton(pipe), *arguments)))
