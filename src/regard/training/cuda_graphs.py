"""Training steps as CUDA graphs: where batches of the same shapes come again, a step is one launch.

With a small model the device is often idle: the host needs longer to launch the kernels of a step than the device to run them.
So a step whose batch has known shapes is captured, from the forward pass to the optimizer, and from then on each batch is
copied into the buffers of the captured one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

import torch

from regard.core.packing import copy_to, shape_key, tensors
from regard.model.kernels.cuda_graph import CudaRecorder, Recorder, Step

PLAIN = 3  # steps of a shape that are run without capture: in these, kernels are compiled, chosen and warmed up
MOST = 32  # shapes

Learn = Callable[[Any], None]


class CaptureError(Exception):
    """The step waits for the host, or does what no graph can contain."""


class StepGraphs:
    """The captured steps of a training, by the shapes of their batches."""

    def __init__(self, device: torch.device, recorder: Recorder | None = None) -> None:
        self.device, self.recorder = device, recorder or CudaRecorder(device)
        self.counts: Counter[Hashable] = Counter()
        self.captured: dict[Hashable, tuple[Any, Step]] = {}

    def learn(self, batch: Any, learn: Learn) -> None:
        """Do what `learn(batch)` does on the device; it may depend only on the batch and on buffers that keep their addresses."""
        key = shape_key(batch)
        if key not in self.captured and (self.counts[key] < PLAIN or len(self.captured) == MOST):
            self.counts[key] += 1
            learn(batch)
            return
        if key not in self.captured:
            self.captured[key] = self._record(batch, learn)
        own, replay = self.captured[key]
        for buffer, given in zip(tensors(own), tensors(batch)):
            buffer.copy_(given, non_blocking=True)
        replay()

    def _record(self, batch: Any, learn: Learn) -> tuple[Any, Step]:
        own = copy_to(batch, self.device)
        try:
            return own, self.recorder.record(partial(learn, own))
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            first = error.__context__ or error  # the cause, which the last error does not name
            raise CaptureError(str(first).partition("\n")[0]) from None
