"""The training loop of word vectors: sparse updates of a few rows of two tables, many thousand steps a minute.

The general loop would update both tables for every batch although nearly all of their rows have no gradient; here a step changes
only the rows it needs. The parts of a batch are computed in parallel from unchanged tables; then each table applies all steps, in
the order of the parts. So any number of threads gives the same vectors, bit for bit, and a resumed run ends with the same vectors
as one that was never killed: every draw derives from the number of the step.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from math import isfinite
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, nn

from regard.core.errors import UserError
from regard.training.checkpoint import Store
from regard.training.config import WordVectorTrainConfig
from regard.training.energy import Meter, joined
from regard.training.logging import RunLog
from regard.training.progress import Interrupt, Progress

Item = TypeVar("Item")
Found = TypeVar("Found")
LAST_RATE = 1e-4  # of the first, at the end of a linear schedule


class Method(Protocol):
    """A method that computes steps: `NegativeSampling` or `GloVe`."""

    @property
    def tables(self) -> nn.Module: ...

    @property
    def moments(self) -> Mapping[str, Tensor]:
        """Optimizer state that is kept between steps."""
        ...

    def compute_steps(self, part: Any) -> tuple[Sequence[Any], Sequence[Any]]:
        """Return the steps of both tables for a part of a batch; changes nothing."""
        ...

    def apply_steps(self, table: int, found: Sequence[Any], rate: float) -> None: ...

    def loss(self, part: Any) -> float: ...


class StepSource(Protocol):
    """Training data in steps."""

    @property
    def per_epoch(self) -> int:
        """Steps of an epoch."""
        ...

    def count(self, step: int) -> int:
        """Return the words, or counts, before this step."""
        ...

    def parts(self, step: int) -> Sequence[Any]: ...


def resume(store: Store, method: Method) -> Progress:
    """Load the newest good checkpoint, if any, and return its progress."""
    found = store.newest("step")
    if found is None:
        return Progress()
    method.tables.load_state_dict(found.tensors("model"))
    if method.moments:
        kept = found.tensors("moments")
        for name, moment in method.moments.items():
            moment.copy_(kept[name])
    return Progress(**found.state["progress"])


def train(
    method: Method,
    source: StepSource,
    config: WordVectorTrainConfig,
    store: Store,
    log: RunLog,
    progress: Progress,
    interrupt: Interrupt,
) -> Progress:
    """Train from `progress` to the end or an interrupt; return the progress there."""
    steps, meter, drawn = config.epochs * source.per_epoch, Meter.of(torch.device("cpu")), progress.joules
    began, since, words = time.perf_counter() - progress.seconds, time.perf_counter(), progress.tokens
    with workers(config) as crew:
        for step in range(progress.step + 1, steps + 1):
            parts, rate = source.parts(step - 1), learning_rate(config, step, steps)
            logs, ends = step % config.log_every == 0 or step == steps, step == steps or bool(interrupt)
            loss = _loss(method, parts[0], rate, step) if logs and parts else None
            take_step(method, parts, rate, crew)
            if not (logs or ends or step % config.checkpoint_every == 0):
                continue
            progress = replace(progress, step=step, tokens=source.count(step), seconds=time.perf_counter() - began)
            progress = replace(progress, joules=drawn + meter.joules(), metered=joined(progress.metered, meter.how))
            if loss is not None:
                speed = (progress.tokens - words) / (time.perf_counter() - since)
                log.record(step=step, loss=loss, learning_rate=rate, **{log.per_second: round(speed)})
                log.progress(step, loss, rate, speed)
                since, words = time.perf_counter(), progress.tokens
            if ends or step % config.checkpoint_every == 0:
                _save(method, store, config, progress, steps)
            if ends:
                break
    log.render()
    return progress


def learning_rate(config: WordVectorTrainConfig, step: int, steps: int) -> float:
    """Return the learning rate of step 1, 2, ..., `steps`."""
    left = 1.0 if config.schedule == "constant" else max(LAST_RATE, 1 - (step - 1) / steps)
    return config.learning_rate * left


class Crew:
    """Threads that map a function over a list.

    The calling thread works too, since waking a thread takes as long as many products.
    """

    def __init__(self, others: Executor, threads: int) -> None:
        self.others, self.threads = others, threads

    def map(self, work: Callable[[Item], Found], items: Sequence[Item]) -> list[Found]:
        found: dict[int, Found] = {}
        places = iter(range(len(items)))

        def go_on() -> None:
            for place in places:
                found[place] = work(items[place])

        called = [self.others.submit(go_on) for _ in range(min(self.threads, len(items)) - 1)]
        go_on()
        for other in called:
            other.result()
        return [found[place] for place in range(len(items))]


def take_step(method: Method, parts: Sequence[Any], rate: float, crew: Crew) -> None:
    if not parts:  # in a short text, subsampling can leave out all words
        return
    found = crew.map(method.compute_steps, parts)
    crew.map(lambda table: method.apply_steps(table, [steps for part in found for steps in part[table]], rate), (0, 1))


def _loss(method: Method, part: Any, rate: float, step: int) -> float:
    loss = method.loss(part)
    if not isfinite(loss):
        raise UserError(
            f"the loss became {loss} at step {step:,} with learning rate {rate:.2e}; lower train.learning_rate or train.batch."
        )
    return loss


def _save(method: Method, store: Store, config: WordVectorTrainConfig, progress: Progress, steps: int) -> None:
    """Save a checkpoint, with the number of steps, which depends on the data."""
    parts: dict[str, Mapping[str, Tensor]] = {"model": method.tables.state_dict()}
    if method.moments:
        parts["moments"] = method.moments
    store.save("step", progress.step, parts, {"progress": vars(progress), "steps": steps})
    store.keep("step", config.keep)


@contextmanager
def workers(config: WordVectorTrainConfig) -> Iterator[Crew]:
    """Yield a crew of threads, with torch set to one thread in each of them."""
    before, threads = torch.get_num_threads(), config.threads or len(os.sched_getaffinity(0))
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(max(1, threads - 1), initializer=torch.set_num_threads, initargs=(1,)) as others:
            yield Crew(others, threads)
    finally:
        torch.set_num_threads(before)
