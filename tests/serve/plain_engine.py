"""An engine without a model: it writes the words of a prompt backwards, one by one, and waits where a test wants it to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any

from regard.core.errors import UserError
from regard.serve.work import (
    Answer,
    Busy,
    Cancelled,
    Closing,
    Generate,
    Histogram,
    Piece,
    Result,
    Sample,
    Statistics,
    Ticket,
    TokenScore,
    Work,
)

NONE = Histogram((0.1, float("inf")), (0, 0), 0.0)


@dataclass(eq=False)
class PlainEngine:
    """One thread; `gate` lets it take the next step. `most` pieces of work may wait."""

    model: Any
    most: int = 64
    gate: Event = field(default_factory=Event)
    began: Event = field(default_factory=Event)  # set with the first piece
    seen: list[Work] = field(default_factory=list)
    tickets: list[Ticket] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    breaks_after: int = -1  # words; -1: never
    cancelled: int = 0
    closed: str = ""
    failing: Callable[[Work], None] = lambda work: None

    def __post_init__(self) -> None:
        self.gate.set()
        self._queue: SimpleQueue[tuple[Work, Ticket] | None] = SimpleQueue()
        self._waiting = 0
        self._thread = Thread(target=self._work, daemon=True)
        self._thread.start()

    def submit(self, work: Work, *, key: str = "", deadline: float | None = None) -> Ticket:
        if self.closed:
            raise Closing("the server is being stopped; ask another one.")
        if self._waiting >= self.most:
            raise Busy(f"{self._waiting} requests are waiting already; try again in a moment.", 2.0)
        ticket = Ticket()
        self._waiting += 1
        self.seen.append(work)
        self.keys.append(key)
        self.tickets.append(ticket)
        self._queue.put((work, ticket))
        return ticket

    @property
    def last(self) -> Ticket | None:
        return self.tickets[-1] if self.tickets else None

    def replace(self, model: Any) -> None:
        self.model = model

    def close(self, *, drain: bool) -> None:
        if not self.closed:
            self.closed = "drained" if drain else "stopped"
            self._queue.put(None)
            self._thread.join(60)

    def statistics(self) -> Statistics:
        counts = {name: len(self.seen) for name in ("accepted", "finished", "steps", "row_steps")}
        zero = dict.fromkeys(("active", "rows", "memory", "memory_limit", "failed", "expired", "refused"), 0)
        tokens = {"prompt_tokens": 0, "generated_tokens": 0, "cancelled": self.cancelled, "queued": self._waiting}
        return Statistics(**counts, **zero, **tokens, waiting=NONE, first_token=NONE, latency=NONE)

    def _work(self) -> None:
        while (one := self._queue.get()) is not None:
            work, ticket = one
            self.gate.wait(60)
            self._waiting -= 1
            try:
                self.failing(work)
                ticket.put(self._done(work, ticket))
            except Exception as error:
                ticket.put(error)

    def _done(self, work: Work, ticket: Ticket) -> Result:
        if isinstance(work, Answer):
            return Result(value=work.batch(self.model, [work.inputs])[0])
        assert isinstance(work, Generate)
        if not work.text.strip() and work.picture is None:
            raise UserError("the prompt is empty; give a text.")
        words = work.text.split()[::-1][: work.max_tokens]
        samples = []
        for n in range(work.n):
            text, scores = "", list[TokenScore]()
            for place, word in enumerate(words):
                self.gate.wait(60)
                if place == self.breaks_after:
                    raise ZeroDivisionError
                if ticket.cancelled:
                    self.cancelled += 1
                    raise Cancelled("the client has gone.")
                piece, score = (" " if place else "") + word, TokenScore(place, word, -0.5, ((place, word, -0.5),))
                scores.append(score)
                ticket.put(Piece(n, piece, [place], [score] if work.logprobs is not None else None))
                self.began.set()
                text += piece
            cut = "length" if work.max_tokens is not None and len(words) == work.max_tokens else "stop"
            told = scores if work.logprobs is not None else None
            samples.append(Sample(text, list(range(len(words))), -1.0, -1.0, cut, logprobs=told))
        return Result(samples=tuple(samples), prompt_tokens=len(work.text.split()), generated_tokens=len(words) * work.n)
