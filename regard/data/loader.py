"""The loader: an endless stream of batches that can start at any step, for any rank, and works ahead in a thread.

Step s of a run is the same sentences whatever the number of processes; each rank takes its share of them. Nothing is carried
between steps, so resuming is starting at another number.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator

import numpy as np

from regard.data.batches import Batch, EncodedPairs, make_batch, plan
from regard.errors import UserError


class Loader:
    def __init__(
        self, data: EncodedPairs, *, tokens: int, seed: int, accumulate: int = 1, rank: int = 0, world: int = 1, ahead: int = 8
    ) -> None:
        if not len(data):
            raise UserError("there are no training pairs left to batch; raise data.maximum_tokens or check data.train.")
        self.data, self.tokens, self.seed, self.accumulate = data, tokens, seed, accumulate
        self.rank, self.world, self.ahead = rank, world, ahead
        self.planned = (0, plan(data, tokens, seed, 0))
        self.per_epoch = len(self.planned[1])

    def rows(self, step: int) -> np.ndarray:
        """The pairs of a step, for all ranks together."""
        epoch, index = divmod(step, self.per_epoch)
        planned = self.planned  # read and replaced whole, because two threads may stand in different epochs
        if planned[0] != epoch:
            planned = self.planned = (epoch, plan(self.data, self.tokens, self.seed, epoch))
        return planned[1][index]

    def batch(self, step: int) -> list[Batch]:
        """This rank's micro-batches of a step."""
        rows = self.rows(step)[self.rank :: self.world]
        return [make_batch(self.data, part) for k in range(self.accumulate) if len(part := rows[k :: self.accumulate])]

    def start(self, step: int, stop: int) -> Iterator[list[Batch]]:
        """Steps from `step` up to `stop`, prepared up to `ahead` of the one in use."""
        ready: queue.Queue[list[Batch] | BaseException] = queue.Queue(self.ahead)
        leave = threading.Event()

        def fill() -> None:
            try:
                for s in range(step, stop):
                    _put(ready, self.batch(s), leave)
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


def _put(ready: queue.Queue[list[Batch] | BaseException], item: list[Batch] | BaseException, leave: threading.Event) -> None:
    while not leave.is_set():
        try:
            ready.put(item, timeout=0.1)
            return
        except queue.Full:
            continue
