"""A search's step as one captured CUDA graph: a token is then one launch instead of hundreds.

A search that was captured is kept with its buffers (a session), the next batch of the same size is copied into them, and nothing
is captured again. A step is captured once for each shape that its kernels
see: how many sentences are left, and how far the cache reaches.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager

import torch

from regard.decode.rules import Search
from regard.model.kernels.cuda_graph import CudaRecorder, Recorder, Step


class CapturedGraph:
    """A search in its buffers. The first step of a shape is run, the second recorded; from then on they are replayed."""

    def __init__(self, search: Search, recorder: Recorder) -> None:
        self.search, self.recorder = search, recorder
        self.steps: dict[Hashable, Step | None] = {}

    def advance(self, tokens: int) -> None:
        shape = self.search.state.shape
        for _ in range(tokens):
            if shape not in self.steps:
                self.recorder.warm_up(self.search.advance)
                self.steps[shape] = None
                continue
            step = self.steps[shape]
            if step is None:
                step = self.steps[shape] = self.recorder.record(self.search.advance)
            step()


class CapturedGraphs:
    """The sessions of one model, the least recently used of which makes way for a new one."""

    def __init__(self, recorder: Recorder, most: int = 8) -> None:
        self.recorder, self.most = recorder, most
        self.idle: dict[Hashable, CapturedGraph] = {}  # least recently used first

    @contextmanager
    def lend(self, key: Hashable, search: Callable[[], Search]) -> Iterator[CapturedGraph]:
        """The session of this key, or a new one. Lent to one at a time; one that fails does not come back."""
        session = self.idle.pop(key, None)
        if session is None:
            while len(self.idle) >= self.most:
                del self.idle[next(iter(self.idle))]
            session = CapturedGraph(search(), self.recorder)
        yield session
        self.idle[key] = session


def sessions_on(device: torch.device) -> CapturedGraphs | None:
    """What searches of one model should share: on a CPU nothing, since there a step is run and not replayed."""
    return CapturedGraphs(CudaRecorder(device)) if device.type == "cuda" else None
