"""Softmax attention by blocks, on a GPU: FlexAttention, compiled once a process, given our map of blocks (Dong et al. 2024)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from regard.model.visibility import View

NARROWEST = 16  # head width that its kernels multiply
SMALL = {"fwd_BLOCK_M": 64, "fwd_BLOCK_N": 64}  # for blocks of 64, which the usual tiles do not divide
# Backwards, tiles can be chosen only by letting it time several; else it has none that divide blocks of 64 on every GPU. So it
# times its own kernels, and no others.
OPTIONS: dict[str, Any] = {"max_autotune": True, "max_autotune_gemm_backends": "ATEN"}


def suits(q_BHLK: Tensor, dropout: float) -> bool:
    return q_BHLK.is_cuda and find_spec("triton") is not None and not dropout and q_BHLK.shape[-1] >= NARROWEST


def mix(q_BHLK: Tensor, k_BHMK: Tensor, v_BHMK: Tensor, view: View) -> Tensor:
    """context_BHLK; a query that sees nobody answers with zeros, as FlexAttention has it."""
    assert view.blocks is not None
    pattern, offset = view.visibility, view.offset

    def counted(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return score + pattern.sees(b, h, i + offset, j).log()

    score_mod, options = counted if pattern.counts else None, SMALL if view.blocks.size < 128 else None
    return _attention()(q_BHLK, k_BHMK, v_BHMK, score_mod, view.blocks.mask, kernel_options=options)


def _attention() -> Callable[..., Tensor]:
    if torch.compiler.is_compiling():  # as part of what is compiled around it
        from torch.nn.attention.flex_attention import flex_attention

        return flex_attention
    return _compiled()


@lru_cache(maxsize=1)
def _compiled() -> Callable[..., Tensor]:
    """A graph that would have to be broken, or one too many, is an error: uncompiled it would hold all scores at once."""
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention, fullgraph=True, options=OPTIONS)
