"""What makes a training step faster: compilation, captured CUDA graphs, the fastest precision; and activation checkpointing.

Stacks are compiled, not whole models: the code around them (chunked losses, searches, probes) stays plain Python. Compiling block
by block would be faster, since all blocks of a stack are alike, but every call of a compiled function costs the host half a
millisecond, and a Transformer-base on an H200 is then no longer limited by the device (docs/log.md).

Captured as CUDA graphs, steps are one launch each where batches of the same shapes come again. With a small model the device is
often idle: the host needs longer to launch the kernels of a step than the device to run them. So a step whose batch has known
shapes is captured, from the forward pass to the optimizer, and from then on each batch is copied into the buffers of the captured
one.

The fastest precision is bf16 where the hardware multiplies bf16 numbers, fp32 where they would be emulated. On a CPU without
instructions for bf16 a training in bf16 takes about twice as long as in fp32; on one with AVX512-BF16 or AMX it takes about half
as long.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.core.packing import copy_to, shape_key, tensors
from regard.model.block import Stack
from regard.model.embedding import Embed
from regard.model.kernels.cuda_graph import CudaRecorder, Recorder, Step
from regard.model.perceiver.latents import LatentEncoder
from regard.model.recurrent.hran_decoder import ByTurns
from regard.model.sparse import flex
from regard.model.visibility import Visibility
from regard.training.config import TrainConfig


def prepare_for_training(model: nn.Module, config: TrainConfig) -> None:
    """Set activation checkpointing and compile, in place; parameter names and weights do not change."""
    for module in model.modules():
        if isinstance(module, Stack):
            module.recompute = config.activation_checkpointing
    if config.compile:
        compile_stacks(model)


def compile_stacks(model: nn.Module) -> None:
    """Compile stacks in place. A changing shape is compiled once more for all sizes; a graph break is an error."""
    options = flex.compile_options() if any(_sparse(module) for module in model.modules()) else None
    for module in model.modules():
        if isinstance(module, Stack) and any(hasattr(block, "unshard") for block in module.blocks):
            for block in module.blocks:
                block.compile(fullgraph=True, options=options)  # shards are gathered before each block, outside a graph
        elif isinstance(module, (Stack, Embed, ByTurns, LatentEncoder)):
            fixed = isinstance(module, Stack) and module.position is not None and module.position.fixed_shapes
            module.compile(fullgraph=True, options=options, dynamic=False if fixed else None)
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, 16)  # encoder and decoder share their code


def _sparse(module: nn.Module) -> bool:
    """Return whether a module attends in sparse blocks, which FlexAttention computes on a GPU."""
    pattern = getattr(module, "visibility", None)
    return isinstance(pattern, Visibility) and pattern.data_independent.reach is None


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


CPU_FLAGS = Path("/proc/cpuinfo")


def fastest_precision(device: torch.device) -> str:
    """Return `bf16` or `fp32`."""
    return "bf16" if multiplies_bf16(device) else "fp32"


def multiplies_bf16(device: torch.device) -> bool:
    """Return whether the device has instructions for products of bf16 numbers."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return _cpu_multiplies_bf16()


@cache
def _cpu_multiplies_bf16() -> bool:
    """Return whether the CPU has avx512_bf16, amx_bf16 or Arm's bf16, by torch, or by Linux where torch has no list."""
    if hasattr(torch.cpu, "get_capabilities"):  # torch 2.12 and later
        return any("bf16" in name and value is True for name, value in torch.cpu.get_capabilities().items())
    return CPU_FLAGS.is_file() and "bf16" in CPU_FLAGS.read_text("utf-8", errors="replace")
