"""Training steps recorded: where batches of the same shapes come again, a step is one launch.

A small model leaves its device waiting: launching the kernels of a step takes the host longer than the device takes to run them.
So a step whose batch has shapes that were met before is captured, with everything from the forward pass to the optimizer, and
from then on batches are copied into the one that was captured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

import torch

from regard.core.packing import copy_to, shape_key, tensors
from regard.model.kernels.cuda_graph import CudaRecorder, Recorder, Step

PLAIN = 3  # steps of a shape that are run as they are: in these, kernels are compiled, chosen and warmed up
MOST = 32  # shapes

Learn = Callable[[Any], None]


class CannotRecord(Exception):
    """The step asks the host for something, or does what no graph can do."""


class Recordings:
    def __init__(self, device: torch.device, recorder: Recorder | None = None) -> None:
        self.device, self.recorder = device, recorder or CudaRecorder(device)
        self.met: Counter[Hashable] = Counter()
        self.kept: dict[Hashable, tuple[Any, Step]] = {}

    def learn(self, batch: Any, learn: Learn) -> None:
        """What `learn(batch)` does on the device; it may depend on nothing else but buffers that stay where they are."""
        key = shape_key(batch)
        if key not in self.kept and (self.met[key] < PLAIN or len(self.kept) == MOST):
            self.met[key] += 1
            learn(batch)
            return
        if key not in self.kept:
            self.kept[key] = self._record(batch, learn)
        own, replay = self.kept[key]
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
            first = error.__context__ or error  # what went wrong, where all that can be said at the end is that something did
            raise CannotRecord(str(first).partition("\n")[0]) from None
