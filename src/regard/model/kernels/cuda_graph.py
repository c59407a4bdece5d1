"""A step that always does the same, recorded as one CUDA graph: hundreds of kernels, and one launch.

A graph repeats the same kernels on the same memory. What differs from one step to the next has to lie in buffers that stay where
they are, numbers included; the caller fills them before a replay.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch

Step = Callable[[], None]


class Recorder(Protocol):
    """A runner of a step that always launches the same kernels."""

    def warm_up(self, step: Step) -> None:
        """Run a step for the first time."""
        ...

    def record(self, step: Step) -> Step:
        """Return a function that repeats `step`, without running it now."""
        ...


class CudaRecorder:
    """torch.cuda.CUDAGraph. All graphs share a memory pool: what a step leaves behind lies in buffers of its own."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.pool = torch.cuda.graph_pool_handle()
        self.first: torch.cuda.CUDAGraph | None = (
            None  # a pool whose last graph is gone takes no other one while tensors lie in it
        )

    def warm_up(self, step: Step) -> None:
        """On a stream of its own, where libraries may allocate what they must not allocate while a graph is captured."""
        current = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(current)
        with torch.cuda.stream(self.stream), self._autocast():
            step()
        current.wait_stream(self.stream)

    def record(self, step: Step) -> Step:
        graph = torch.cuda.CUDAGraph()
        # So that products ask for their scratch memory again, and get it from the graphs' pool: what they hold by now anybody may
        # free, as compiled models that capture graphs of their own do, and a graph that goes on writing there is lost.
        torch._C._cuda_clearCublasWorkspaces()
        # Other threads may go on using the device meanwhile.
        recording = torch.cuda.graph(graph, pool=self.pool, stream=self.stream, capture_error_mode="thread_local")
        try:
            with torch.cuda.device(self.device), recording, self._autocast():
                step()
        except RuntimeError:
            # A capture that failed leaves the generator believing that it goes on; its copy does not.
            generator = torch.cuda.default_generators[self.device.index or 0]
            generator.graphsafe_set_state(generator.clone_state())
            self.pool, self.first = torch.cuda.graph_pool_handle(), None  # the old one counts as still being captured into
            raise
        self.first = self.first or graph
        return graph.replay

    def _autocast(self) -> torch.autocast:
        """Return the current autocast without its weight cache, whose tensors would be freed while graphs still read them."""
        enabled, dtype = torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")
        return torch.autocast("cuda", dtype=dtype, enabled=enabled, cache_enabled=False)
