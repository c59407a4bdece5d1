"""Compilation of a model for training, and activation checkpointing.

Stacks are compiled, not whole models: the code around them (chunked losses, searches, probes) stays plain Python. Compiling block
by block would be faster, since all blocks of a stack are alike, but every call of a compiled function costs the host half a
millisecond, and a Transformer-base on an H200 is then no longer limited by the device (docs/log.md).
"""

from __future__ import annotations

import torch
from torch import nn

from regard.model.embedding import Embed
from regard.model.recurrent.hran_decoder import ByTurns
from regard.model.sparse import flex
from regard.model.stack import Stack
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
        elif isinstance(module, (Stack, Embed, ByTurns)):
            module.compile(fullgraph=True, options=options)
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, 16)  # encoder and decoder share their code


def _sparse(module: nn.Module) -> bool:
    """Return whether a module attends in sparse blocks, which FlexAttention computes on a GPU."""
    pattern = getattr(module, "visibility", None)
    return isinstance(pattern, Visibility) and pattern.data_independent.reach is None
