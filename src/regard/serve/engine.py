"""The engine of the server: one thread that owns a model and does the work of all requests, step by step.

Between two steps it removes what was cancelled or is late, lets waiting requests join as far as rows and memory go, and takes a
new model if one was handed over. What waits is in order for each key, and the keys take turns. A request that does not fit yet
keeps its turn, so no stream of small requests overtakes a large one for ever. Long texts have a queue of their own and at most
half of the rows: short ones pass by them, and wait only where memory is short (`generator.py` shares the time). Inputs of
`Answer` wait in a queue of their own, and a batch of them has its pass between two steps.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from math import ceil
from threading import Condition, Thread

import torch

from regard.core.errors import UserError
from regard.runs.protocols import Predictor, WritesRows
from regard.serve.counters import Counters
from regard.serve.fair_queue import FairQueue
from regard.serve.generation import Writing
from regard.serve.generator import Generator
from regard.serve.item import Item, is_lost, readable
from regard.serve.memory import free_memory
from regard.serve.passes import answer_together, take_similar
from regard.serve.work import (
    Answer,
    Busy,
    Cancelled,
    Closing,
    DeadlinePassed,
    EngineSettings,
    Event,
    Generate,
    Piece,
    Result,
    Sample,
    Statistics,
    Ticket,
    Work,
)


class Served:
    """One model, and what it does now."""

    def __init__(self, predictor: Predictor, settings: EngineSettings) -> None:
        self.predictor = predictor
        self.generator: Generator | None = None
        if isinstance(predictor, WritesRows):
            self.generator = Generator(predictor, settings)
        self.items: dict[Writing, Item] = {}


class Engine:
    """Does work on one model, from any number of threads."""

    def __init__(
        self,
        model: Predictor,
        settings: EngineSettings | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        start: bool = True,
    ) -> None:
        """Start the engine's thread; without `start`, the caller of `step` does its work."""
        self.settings = settings or EngineSettings()
        self.clock, self.counters = clock, Counters()
        self.long_texts, self.texts, self.answers = FairQueue[Item](), FairQueue[Item](), FairQueue[Item]()
        self.served, self.leaving = Served(model, self.settings), list[Served]()
        device = next(model.model.parameters()).device if hasattr(model.model, "parameters") else torch.device("cpu")
        self.memory_limit = self.settings.memory or free_memory(device) // 2
        self.state = Condition()
        self.next_model: Served | None = None
        self.closing = self.stopping = False
        self.thread = Thread(target=self._run, name="engine", daemon=True) if start else None
        if self.thread is not None:
            self.thread.start()

    def submit(self, work: Work, *, key: str = "", deadline: float | None = None) -> Ticket:
        """Accept work, to be done within `deadline` seconds, or raise `Busy` or `Closing`. A key shares its turns."""
        ticket, now = Ticket(), self.clock()
        item = Item(work, key, ticket, now, float("inf") if deadline is None else now + deadline)
        if isinstance(work, Answer) and work.bytes > self.memory_limit:
            raise UserError(
                f"this input takes {work.bytes:,} bytes, and this server has {self.memory_limit:,}; give a smaller one."
            )
        ticket.listen(lambda event: self._count(item, event))
        with self.state:
            if self.closing:
                raise Closing("this server is shutting down and takes no more work; ask again later.")
            if self.queued >= self.settings.queue:
                self.counters.refused += 1
                seconds = self._seconds_until_room()
                raise Busy(f"{self.queued:,} requests wait already; ask again in {seconds} s.", seconds)
            (self.answers if isinstance(work, Answer) else self.texts).push(key, item)
            self.counters.accepted += 1
            self.state.notify_all()
        return ticket

    def replace(self, model: Predictor) -> None:
        """Hand over a newer model: what has begun ends on the old one, what comes and what waits goes to the new one."""
        served = Served(model, self.settings)
        with self.state:
            self.next_model = served
            self.state.notify_all()

    def close(self, *, drain: bool) -> None:
        """Take no more work, and return when all that was accepted is done, or at once given up."""
        with self.state:
            self.closing = True
            self.stopping = self.stopping or not drain
            self.state.notify_all()
        if self.thread is not None:
            self.thread.join()
            return
        while not self.stopping and self.step():
            pass
        self._give_up()

    def statistics(self) -> Statistics:
        """Return counts and histograms; queue and batch as they are between two steps."""
        counted, generators = self.counters, self._generators
        active = sum(len(served.items) for served in (self.served, *self.leaving))
        numbers = {name: value for name, value in vars(counted).items() if isinstance(value, int)}
        return Statistics(
            queued=self.queued,
            active=active,
            rows=sum(generator.rows for generator in generators),
            memory=sum(generator.memory for generator in generators),
            memory_limit=self.memory_limit,
            waiting=counted.waiting.histogram,
            first_token=counted.first_token.histogram,
            latency=counted.latency.histogram,
            **numbers,
        )

    @property
    def queued(self) -> int:
        return sum(map(len, self._queues))

    @property
    def _queues(self) -> tuple[FairQueue[Item], ...]:
        return self.long_texts, self.texts, self.answers

    @property
    def _generators(self) -> list[Generator]:
        return [served.generator for served in (self.served, *self.leaving) if served.generator is not None]

    def _seconds_until_room(self) -> int:
        """Return about how long it takes until work has left the queue: the mean time of a request, shared by all rows."""
        return max(1, ceil(self.counters.latency.mean * self.queued / self.settings.rows))

    def _run(self) -> None:
        while True:
            with self.state:
                self.state.wait_for(lambda: self.stopping or self.queued or self._busy or self.next_model or self.closing)
            try:
                worked = not self.stopping and self.step()
            except Exception as error:  # in the engine itself: every waiting request must still get an answer
                worked = True
                self._abandon(readable(error))
            if self.stopping or (self.closing and not worked):
                self._give_up()
                return

    @property
    def _busy(self) -> bool:
        return any(served.items for served in (self.served, *self.leaving))

    def step(self) -> bool:
        """Do what is to be done until the end of the next step; return whether there was anything to do."""
        self._take_over()
        self._drop()
        self._admit()
        worked = self._answer()
        for served in (self.served, *self.leaving):
            if served.generator is not None and served.items:
                complete, rows = served.generator.step(partial(self._fail, served))
                self.counters.steps += 1
                self.counters.row_steps += rows
                for writing in complete:
                    served.items.pop(writing).ticket.put(writing.result)
                worked = True
        self.leaving = [served for served in self.leaving if served.items]
        return worked or bool(self.queued)

    def _take_over(self) -> None:
        with self.state:
            if self.next_model is not None:
                self.leaving.append(self.served)
                self.served, self.next_model = self.next_model, None

    def _drop(self) -> None:
        """Remove what was cancelled, and what is late."""
        now = self.clock()
        with self.state:
            dropped = [item for queue in self._queues for item in queue.remove(lambda item: is_lost(item, now))]
        for served in (self.served, *self.leaving):
            for writing, item in list(served.items.items()):
                if is_lost(item, now) and served.generator is not None:
                    served.generator.remove(writing)
                    dropped.append(served.items.pop(writing))
        for item in dropped:
            late = DeadlinePassed("this request was not done in time; ask for less, or give it more time.")
            item.ticket.put(Cancelled("this request was cancelled.") if item.ticket.cancelled else late)

    def _admit(self) -> None:
        """Prepare waiting texts, and let as many join as have room. What does not fit yet keeps its turn."""
        served, beginning = self.served, list[Writing]()
        if self._admit_from(self.long_texts, beginning):
            self._admit_from(self.texts, beginning)
        if beginning and served.generator is not None:
            served.generator.begin(beginning, partial(self._fail, served))

    def _admit_from(self, queue: FairQueue[Item], beginning: list[Writing]) -> bool:
        """Let requests of a queue join; return False where the next one waits for memory, or for rows that others leave."""
        for _ in range(self.settings.rows):
            with self.state:
                item = queue.peek()
            if item is None or sum(max(1, writing.row.length) for writing in beginning) >= self.settings.batch_length:
                break
            try:
                writing = self._prepared(item)
                if writing is not None and writing.long:
                    if queue is self.texts:  # its length is known only now
                        with self.state:
                            self.long_texts.push(item.key, queue.pop())
                        continue
                    if not self._has_long_rows(len(writing.texts)):
                        break
                if writing is not None and not self._has_room(writing):
                    return False
            except Exception as error:
                writing = None
                item.ticket.put(readable(error))
            with self.state:
                queue.pop()
            self.counters.waiting.add(self.clock() - item.accepted)
            if writing is not None:
                self.served.items[writing] = item
                beginning.append(writing)
        return True

    def _has_long_rows(self, rows: int) -> bool:
        taken = sum(len(writing.texts) for served in (self.served, *self.leaving) for writing in served.items if writing.long)
        return not taken or taken + rows <= self.settings.rows // 2

    def _prepared(self, item: Item) -> Writing | None:
        """Return a request as a row; None where its result is known already."""
        predictor, work = self.served.predictor, item.work
        assert isinstance(work, Generate)
        generator = self.served.generator
        if generator is None:
            raise UserError("this run writes no text; give one that does, or ask for what it answers.")
        if item.prepared is not None and item.prepared.of is predictor:  # it has waited for room
            return item.prepared
        writing = item.prepared = Writing.prepare(generator.writers, work, item.ticket)
        if writing is None:
            item.ticket.put(Result((Sample("", [], 0.0, 0.0, "stop", logprobs=None if work.logprobs is None else []),) * work.n))
        return writing

    def _has_room(self, writing: Writing) -> bool:
        """Reserve rows and memory if there are enough. Those of a model that is being replaced count until it has left."""
        assert self.served.generator is not None
        taken = sum(generator.memory for generator in self._generators)
        if self.leaving and self.settings.rows - sum(generator.rows for generator in self._generators) < len(writing.texts):
            return False
        return self.served.generator.reserve(writing, self.memory_limit - taken, self.memory_limit)

    def _answer(self) -> bool:
        """Do one pass over waiting inputs of similar length."""
        with self.state:
            items = take_similar(self.answers, self.settings, self.memory_limit)
        for item in items:
            self.counters.waiting.add(self.clock() - item.accepted)
        if items:
            answer_together(self.served.predictor, items)
        return bool(items)

    def _fail(self, served: Served, writing: Writing, error: Exception) -> None:
        served.items.pop(writing).ticket.put(readable(error))

    def _give_up(self) -> None:
        """Answer all waiting requests with the error that there will be no result."""
        with self.state:
            items = [item for queue in self._queues for item in queue.remove(lambda item: True)]
        closing = Closing("this server has shut down before the request was done; ask again later.")
        for item in items:
            item.ticket.put(closing)
        self._abandon(closing)

    def _abandon(self, error: Exception) -> None:
        """Give up everything that has begun."""
        for served in (self.served, *self.leaving):
            items = list(served.items.values())
            served.items.clear()
            if isinstance(served.predictor, WritesRows):
                served.generator = Generator(served.predictor, self.settings)
            for item in items:
                item.ticket.put(error)

    def _count(self, item: Item, event: Event) -> None:
        """Count one event of a ticket."""
        counted, now = self.counters, self.clock()
        if not item.answered:
            item.answered = True
            counted.first_token.add(now - item.accepted)
        if isinstance(event, Piece):
            return
        counted.latency.add(now - item.accepted)
        if isinstance(event, Result):
            counted.finished += 1
            counted.prompt_tokens += event.prompt_tokens
            counted.generated_tokens += event.generated_tokens
        elif isinstance(event, Cancelled):
            counted.cancelled += 1
        elif isinstance(event, DeadlinePassed):
            counted.expired += 1
        else:
            counted.failed += 1
