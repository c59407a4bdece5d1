"""One step of a search as a captured CUDA graph: a token is then one launch instead of hundreds.

A session is a search with its buffers and its captured steps. The next request of the same sizes is copied into these buffers,
and nothing is captured again. A step is captured once for each shape that its kernels have: the number of sentences left, and
the length of the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager

import torch

from regard.decode.algorithm import SearchAlgorithm
from regard.model.kernels.cuda_graph import CudaRecorder, Recorder, Step


class CapturedGraph:
    """A search in its buffers. The first step of a shape is run, the second captured; from then on steps are replayed."""

    def __init__(self, search: SearchAlgorithm, recorder: Recorder) -> None:
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
    """The sessions of one model; a new session replaces the least recently used one."""

    def __init__(self, recorder: Recorder, most: int = 8) -> None:
        self.recorder, self.most = recorder, most
        self.idle: dict[Hashable, CapturedGraph] = {}  # least recently used first

    @contextmanager
    def lend(self, key: Hashable, make_search: Callable[[], SearchAlgorithm]) -> Iterator[CapturedGraph]:
        """Yield the session of this key, or a new one. A session has one user at a time, and one that fails is dropped."""
        session = self.idle.pop(key, None)
        if session is None:
            while len(self.idle) >= self.most:
                del self.idle[next(iter(self.idle))]
            session = CapturedGraph(make_search(), self.recorder)
        yield session
        self.idle[key] = session


def sessions_on(device: torch.device) -> CapturedGraphs | None:
    """Return the sessions that all searches of one model share, or None on a CPU, where steps are run."""
    return CapturedGraphs(CudaRecorder(device)) if device.type == "cuda" else None
