"""A search's step as one captured CUDA graph: a token is then one launch instead of hundreds.

A graph repeats the same kernels on the same memory. So a search that was captured is kept with its buffers (a session), the next
batch of the same size is copied into them, and nothing is captured again. A step is captured once for each shape that its kernels
see: how many sentences are left, and how far the cache reaches.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Protocol

import torch

from regard.decode.rules import Search

Step = Callable[[], None]


class Recorder(Protocol):
    """How a step that always does the same is run."""

    def warm_up(self, step: Step) -> None:
        """Run it for the first time."""
        ...

    def record(self, step: Step) -> Step:
        """Something that does what `step` would do, without doing it now."""
        ...


class CudaRecorder:
    """torch.cuda.CUDAGraph. All graphs share a memory pool: what a step leaves behind lies in the session's own buffers."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.pool = torch.cuda.graph_pool_handle()

    def warm_up(self, step: Step) -> None:
        """On a stream of its own, where libraries may allocate what they must not allocate while a graph is captured."""
        current = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(current)
        with torch.cuda.stream(self.stream), self._autocast():
            step()
        current.wait_stream(self.stream)

    def record(self, step: Step) -> Step:
        graph = torch.cuda.CUDAGraph()
        # Other threads may go on using the device meanwhile.
        recording = torch.cuda.graph(graph, pool=self.pool, stream=self.stream, capture_error_mode="thread_local")
        with torch.cuda.device(self.device), recording, self._autocast():
            step()
        return graph.replay

    def _autocast(self) -> torch.autocast:
        """As it is, but converted weights are not kept: they would be freed, and graphs go on reading them."""
        enabled, dtype = torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")
        return torch.autocast("cuda", dtype=dtype, enabled=enabled, cache_enabled=False)


class Session:
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


class Sessions:
    """The sessions of one model, the least recently used of which makes way for a new one."""

    def __init__(self, recorder: Recorder, most: int = 8) -> None:
        self.recorder, self.most = recorder, most
        self.idle: dict[Hashable, Session] = {}  # least recently used first

    @contextmanager
    def lend(self, key: Hashable, search: Callable[[], Search]) -> Iterator[Session]:
        """The session of this key, or a new one. Lent to one at a time; one that fails does not come back."""
        session = self.idle.pop(key, None)
        if session is None:
            while len(self.idle) >= self.most:
                del self.idle[next(iter(self.idle))]
            session = Session(search(), self.recorder)
        yield session
        self.idle[key] = session


def sessions_on(device: torch.device) -> Sessions | None:
    """What searches of one model should share: on a CPU nothing, since there a step is run and not replayed."""
    return Sessions(CudaRecorder(device)) if device.type == "cuda" else None
