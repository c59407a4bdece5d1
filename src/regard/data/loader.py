"""The loader: an endless stream of batches that can start at any step, for any rank, and works ahead in a thread.

Step s of a run is the same examples whatever the number of processes; each rank takes its share of them. Nothing is carried
between steps, so resuming is starting at another number.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol, Self

import numpy as np
import torch

from regard.core.errors import UserError
from regard.core.packing import pin_memory


class AnyBatch(Protocol):
    @property
    def tokens(self) -> int:
        """Return the number of terms that the loss is summed over, known on the host."""
        ...

    def to(self, device: torch.device) -> Self: ...


class Source(Protocol):
    """Numbered examples that are grouped into batches again for every epoch."""

    @property
    def fixed_shapes(self) -> bool:
        """Return True if all batches but an epoch's last have one shape."""
        ...

    def plan(self, epoch: int) -> list[np.ndarray]:
        """Return the example numbers of each batch; every epoch has the same number of batches."""
        ...

    def count(self, rows: np.ndarray) -> int:
        """Return the number of terms that the loss of these examples is summed over."""
        ...

    def batch(self, rows: np.ndarray, epoch: int) -> AnyBatch: ...


@dataclass(frozen=True)
class Bounded:
    """Batches of another source, those with more than `most` examples cut into equal parts.

    A number of tokens bounds memory; what is learned in a step depends on the number of examples.
    """

    source: Source
    most: int
    fixed_shapes = False

    def plan(self, epoch: int) -> list[np.ndarray]:
        """Plan all first parts, then all second ones, so that texts of similar length do not follow each other."""
        cut = [np.array_split(rows, -(-len(rows) // self.most)) for rows in self.source.plan(epoch)]
        return [parts[n] for n in range(max(map(len, cut), default=0)) for parts in cut if n < len(parts)]

    def count(self, rows: np.ndarray) -> int:
        return self.source.count(rows)

    def batch(self, rows: np.ndarray, epoch: int) -> AnyBatch:
        return self.source.batch(rows, epoch)


def bounded(source: Source, most: int) -> Source:
    """Limit the number of examples in a batch, where a batch has more; 0 is no limit."""
    return Bounded(source, most) if most and most < max(map(len, source.plan(0)), default=0) else source


class Work(NamedTuple):
    """One step for one rank."""

    batches: list[AnyBatch]  # its micro-batches
    tokens: int  # of all ranks together
    idle: int  # how many of the last micro-batches have weight 0: every rank has as many of them, if not as many examples


class Loader:
    def __init__(
        self, source: Source, *, accumulate: int = 1, rank: int = 0, world: int = 1, ahead: int = 8, pin: bool = False
    ) -> None:
        self.source, self.accumulate, self.rank, self.world, self.ahead, self.pin = source, accumulate, rank, world, ahead, pin
        self.planned = (0, source.plan(0))
        self.per_epoch = len(self.planned[1])
        if not self.per_epoch:
            raise UserError("there is nothing left to train on; raise data.maximum_tokens or check data.train.")

    def rows(self, step: int) -> np.ndarray:
        """Return the example numbers of a step, for all ranks together."""
        epoch, index = divmod(step, self.per_epoch)
        planned = self.planned  # read and replaced whole, because two threads may stand in different epochs
        if planned[0] != epoch:
            planned = self.planned = (epoch, self.source.plan(epoch))
        return planned[1][index]

    def work(self, step: int) -> Work:
        """Return this rank's share of a step."""
        rows, epoch = self.rows(step), step // self.per_epoch
        share, largest = rows[self.rank :: self.world], -(-len(rows) // self.world)
        parts = min(self.accumulate, largest)
        shares = [share[k::parts] for k in range(parts)]
        idle = sum(not len(part) for part in shares)
        batches = [self.source.batch(part if len(part) else rows[:1], epoch) for part in shares]
        return Work([pin_memory(batch) for batch in batches] if self.pin else batches, self.source.count(rows), idle)

    def start(self, step: int, stop: int) -> Iterator[Work]:
        """Yield the steps from `step` to `stop`, prepared by a thread that is at most `ahead` steps ahead."""
        ready: queue.Queue[Work | BaseException] = queue.Queue(self.ahead)
        leave = threading.Event()

        def fill() -> None:
            try:
                for s in range(step, stop):
                    _put(ready, self.work(s), leave)
                    if leave.is_set():
                        return
            except BaseException as error:
                _put(ready, error, leave)

        threading.Thread(target=fill, daemon=True, name="loader").start()
        try:
            for _ in range(step, stop):
                if isinstance(item := ready.get(), BaseException):
                    raise item
                yield item
        finally:
            leave.set()


def _put(ready: queue.Queue[Work | BaseException], item: Work | BaseException, leave: threading.Event) -> None:
    while not leave.is_set():
        try:
            ready.put(item, timeout=0.1)
            return
        except queue.Full:
            continue
