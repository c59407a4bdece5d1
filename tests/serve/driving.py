"""An engine without a thread, driven step by step, on a clock that stands still."""

from __future__ import annotations

from typing import Any

from regard.serve.engine import Engine
from regard.serve.work import EngineSettings, Ticket
from tests.serve.small_writers import writer


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def engine(kind: str = "gpt", clock: Any = None, **settings: Any) -> Engine:
    return Engine(writer(kind), EngineSettings(**settings), clock=clock or Clock(), start=False)


def run(served: Engine) -> None:
    while served.step():
        pass


def texts(ticket: Ticket) -> list[tuple[str, list[int]]]:
    return [(sample.text, sample.tokens) for sample in ticket.result(0).samples]
