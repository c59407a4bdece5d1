"""The training of word vectors: steps by hand on a few rows of two tables, many thousand of them a minute.

The loop that trains everything else would sweep both tables for every batch, to find that nearly all of their rows had no
gradient; here a step touches what it changes. A batch is worked on in parts, side by side, from tables that stand still; then
each table takes all steps, in the order of the parts. So any number of threads comes to the same vectors, bit for bit, and a run
that was killed goes on as if it had not been: every draw derives from the number of the step.
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
from regard.training.config import StaticConfig
from regard.training.energy import Meter, joined
from regard.training.interrupt import Interrupt
from regard.training.logging import RunLog
from regard.training.progress import Progress

Item = TypeVar("Item")
Found = TypeVar("Found")
LAST_RATE = 1e-4  # of the first, at the end of a linear schedule


class Method(Protocol):
    """Which steps to take: `NegativeSampling` or `GloVe`."""

    @property
    def tables(self) -> nn.Module: ...

    @property
    def moments(self) -> Mapping[str, Tensor]:
        """What it remembers between steps."""
        ...

    def compute_steps(self, part: Any) -> tuple[Sequence[Any], Sequence[Any]]:
        """The steps of one table and of the other for a part of a batch; it changes nothing."""
        ...

    def apply_steps(self, table: int, found: Sequence[Any], rate: float) -> None: ...

    def loss(self, part: Any) -> float: ...


class StepSource(Protocol):
    @property
    def per_epoch(self) -> int:
        """Steps."""
        ...

    def count(self, step: int) -> int:
        """Words, or counts, before this step."""
        ...

    def parts(self, step: int) -> Sequence[Any]: ...


def resume(store: Store, method: Method) -> Progress:
    """Where the newest good checkpoint stands, with its tensors put in place; or a fresh start."""
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
    config: StaticConfig,
    store: Store,
    log: RunLog,
    progress: Progress,
    interrupt: Interrupt,
) -> Progress:
    """From where `progress` stands to the end or an interrupt; returns where it stands then."""
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


def learning_rate(config: StaticConfig, step: int, steps: int) -> float:
    """Of step 1, 2, ..., `steps`."""
    left = 1.0 if config.schedule == "constant" else max(LAST_RATE, 1 - (step - 1) / steps)
    return config.learning_rate * left


class Crew:
    """Threads that work on a list side by side. Whoever asks is one of them: to wake a thread takes as long as many a product."""

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
    if not parts:  # of little text, all words can have been left out by chance
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


def _save(method: Method, store: Store, config: StaticConfig, progress: Progress, steps: int) -> None:
    """With how many steps there are to be, which only the data and its batches tell."""
    parts: dict[str, Mapping[str, Tensor]] = {"model": method.tables.state_dict()}
    if method.moments:
        parts["moments"] = method.moments
    store.save("step", progress.step, parts, {"progress": vars(progress), "steps": steps})
    store.keep("step", config.keep)


@contextmanager
def workers(config: StaticConfig) -> Iterator[Crew]:
    """Threads of ours, each of which torch is to use as one: that has to be said in every one of them."""
    before, threads = torch.get_num_threads(), config.threads or len(os.sched_getaffinity(0))
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(max(1, threads - 1), initializer=torch.set_num_threads, initargs=(1,)) as others:
            yield Crew(others, threads)
    finally:
        torch.set_num_threads(before)
