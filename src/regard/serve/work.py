"""Requests to the engine and its results: what is submitted, the ticket for it, and what comes back, piece by piece or whole.

Two threads use a ticket: the engine's puts pieces and the result into it, and another one, which submitted the work, reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Condition
from typing import Any, Literal

from regard.core.errors import UserError
from regard.decode.config import BeamSettings, Sampling

TokenMask = Callable[[Sequence[int]], Sequence[int]]
"""Takes the tokens that one text has so far and returns the ids that may come next, the end token among them where it may end."""

FinishReason = Literal["stop", "length"]


@dataclass(frozen=True, kw_only=True)
class Generate:
    """A text, or several samples of one, written token by token in a batch with other requests."""

    text: str  # the prompt or the source; of a chat the whole transcript
    picture: Any = None  # in place of a text, for a task that reads images: an open `PIL.Image`
    max_tokens: int | None = None  # None: as many as the run's own settings allow
    minimum_tokens: int = 0
    method: Sampling | BeamSettings | None = None  # None: the search of the run's own settings
    seed: int = 0  # the same seed draws the same texts as `decode.seed`
    n: int = 1  # texts: samples, or the best of a beam
    stop: tuple[str, ...] = ()  # a text ends where one of these would begin
    logprobs: int | None = None  # None: no log-probabilities; 0: of the tokens written; above: also of as many likeliest tokens
    allowed: TokenMask | None = None  # tokens that may come next; for greedy search and sampling
    settings: Mapping[str, Any] = field(default_factory=dict)  # other settings of [decode], such as banned_words or prefix


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One input that a model answers in a single pass, in a batch with inputs of similar length."""

    inputs: Any  # one input, as an element of the sequence that `batch` takes
    batch: Callable[[Any, Sequence[Any]], Sequence[Any]]
    """Takes the predictor and several inputs; returns a result for each. Requests with the same function share a batch."""
    length: int  # of the input, in characters, tokens or pixels: alike for all requests with the same function
    bytes: int = 0  # of memory that this input takes in its pass, if the caller knows it


Work = Generate | Answer


@dataclass(frozen=True)
class TokenScore:
    """One token with its log-probability, and the likeliest tokens in its place."""

    id: int
    token: str
    logprob: float
    top: tuple[tuple[int, str, float], ...] = ()  # id, token, log-probability; best first


@dataclass(frozen=True)
class Piece:
    """New text of one sample. The pieces of a sample join to exactly its final text."""

    sample: int
    text: str
    tokens: list[int]
    logprobs: list[TokenScore] | None = None


@dataclass(frozen=True)
class Sample:
    """One text that was written."""

    text: str
    tokens: list[int]  # without the end token
    score: float  # what a search ranks by
    logprob: float  # the sum over all tokens, the end token included
    finish: FinishReason  # stop: it ended by itself or at a stop text; length: it was cut at its limit
    stopped: bool = False  # at a stop text
    logprobs: list[TokenScore] | None = None


@dataclass(frozen=True)
class Result:
    """The result of one piece of work: texts of `Generate`, or the value of `Answer`."""

    samples: tuple[Sample, ...] = ()
    value: Any = None
    prompt_tokens: int = 0  # that the model read
    generated_tokens: int = 0  # of all samples, end tokens included


class Busy(UserError):
    """The queue is full."""

    def __init__(self, sentence: str, retry_after: float) -> None:
        super().__init__(sentence)
        self.retry_after = retry_after  # seconds


class Closing(UserError):
    """The engine takes no more work."""


class Cancelled(UserError):
    """The work was cancelled by the thread that submitted it."""


class DeadlinePassed(UserError):
    """The work was not done in time."""


Event = Piece | Result | Exception
Listener = Callable[[Event], None]


class Ticket:
    """A claim to the result of one piece of work."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._events: list[Event] = []  # pieces, and then a result or an exception
        self._listeners: list[Listener] = []
        self._cancelled = False
        self._done = False

    def pieces(self) -> Iterator[Piece]:
        """Yield new text as it is written. Ends with the work; what it failed with is raised here."""
        at = 0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: len(self._events) > at)  # noqa: B023
                event, at = self._events[at], at + 1
            if isinstance(event, Exception):
                raise event
            if isinstance(event, Result):
                return
            yield event

    def result(self, timeout: float | None = None) -> Result:
        """Wait for the result and return it, or raise what this request failed with, or TimeoutError after `timeout` seconds."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._done, timeout):
                raise TimeoutError
            last = self._events[-1]
        if isinstance(last, Exception):
            raise last
        assert isinstance(last, Result)
        return last

    def listen(self, call: Listener) -> None:
        """Call with every event: those so far at once, the others from the engine's thread, in order.

        `call` must not block. One that raises is not called again, since its reader has gone; the work goes on.
        """
        with self._changed:
            for event in self._events:
                call(event)
            self._listeners.append(call)

    def cancel(self) -> None:
        """Give the work up. Its place in the batch is free after the step that is running now."""
        self._cancelled = True

    @property
    def cancelled(self) -> bool:
        return self._cancelled

    @property
    def done(self) -> bool:
        return self._done

    def put(self, event: Event) -> None:
        """Add an event, as the engine does. After a result or an exception there are no more."""
        with self._changed:
            if self._done:
                return
            self._events.append(event)
            self._done = not isinstance(event, Piece)
            self._listeners = [call for call in self._listeners if _called(call, event)]
            self._changed.notify_all()


def _called(call: Listener, event: Event) -> bool:
    """Return whether a listener took an event."""
    try:
        call(event)
    except Exception:  # of a reader, in the thread that serves all others too
        return False
    return True


@dataclass(frozen=True, kw_only=True)
class EngineSettings:
    """Limits of one engine."""

    rows: int = 64  # texts that are written together
    queue: int = 256  # pieces of work that wait
    memory: int = 0  # bytes that texts being written may take; 0: half of what is free when the engine starts
    max_tokens: int = 0  # of any text; 0: only the run's own limits
    long: int = 128  # tokens: texts that may have more take at most half of the rows, and half of the time while short ones run
    batch_length: int = 4096  # the sum of padded lengths of one pass over inputs or prompts
    samples: int = 16  # texts of one request
    beam: int = 16  # the widest beam that a request may ask for


@dataclass(frozen=True)
class Histogram:
    """Counts of seconds below each bound, as Prometheus takes them: cumulative; the last bound is infinite."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total: float  # the sum of all seconds


@dataclass(frozen=True)
class Statistics:
    """Numbers since the engine started, and what is going on now."""

    queued: int  # pieces of work that wait
    active: int  # pieces of work that are being done
    rows: int  # texts in the batch now, samples and beams counted once each
    memory: int  # bytes counted for them
    memory_limit: int
    steps: int
    row_steps: int  # the sum of rows over all steps: row_steps / steps is the mean batch
    prompt_tokens: int
    generated_tokens: int
    accepted: int
    finished: int
    failed: int
    cancelled: int
    expired: int  # deadlines that passed
    refused: int  # because the queue was full
    waiting: Histogram  # seconds from acceptance to the first step
    first_token: Histogram  # seconds from acceptance to the first piece or result
    latency: Histogram  # seconds from acceptance to the result
