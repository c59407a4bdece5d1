"""How a model runs in training: compiled into fused kernels, or remembering less and computing it again.

Stacks are compiled, not whole models: what surrounds them (losses in chunks, searches, probes) stays plain Python. Block by block
would compile faster, since all blocks of a stack are alike, but every call of a compiled function costs the host half a
millisecond, and a Transformer-base on an H200 is then no longer limited by the device (docs/log.md).
"""

from __future__ import annotations

import torch
from torch import nn

from regard.model.block import Stack
from regard.model.embedding import Embed
from regard.model.recurrent.hran_decoder import ByTurns
from regard.model.sparse import flex
from regard.model.visibility import Visibility
from regard.training.config import TrainConfig


def fuse(model: nn.Module, config: TrainConfig) -> None:
    """In place; names and weights stay as they are."""
    for module in model.modules():
        if isinstance(module, Stack):
            module.recompute = config.activation_checkpointing
    if config.compile:
        compile_stacks(model)


def compile_stacks(model: nn.Module) -> None:
    """Shapes that change are compiled once more for all sizes; a graph that would have to be broken is an error."""
    options = flex.compile_options() if any(_sparse(module) for module in model.modules()) else None
    for module in model.modules():
        if isinstance(module, Stack) and any(hasattr(block, "unshard") for block in module.blocks):
            for block in module.blocks:
                block.compile(fullgraph=True, options=options)  # its shards are gathered before it, and no graph may span that
        elif isinstance(module, (Stack, Embed, ByTurns)):
            module.compile(fullgraph=True, options=options)
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, 16)  # encoder and decoder share their code


def _sparse(module: nn.Module) -> bool:
    """Does it look in blocks, which on a GPU FlexAttention computes?"""
    pattern = getattr(module, "visibility", None)
    return isinstance(pattern, Visibility) and pattern.data_independent.reach is None
