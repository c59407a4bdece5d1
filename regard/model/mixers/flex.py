"""Softmax attention by blocks, on a GPU: FlexAttention, compiled once a process, given our map of blocks (Dong et al. 2024)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from regard.model.visibility import View

TRITON = find_spec("triton") is not None
NARROWEST = 16  # head width that its kernels multiply
# For blocks of 64, which the usual tiles do not divide. Forwards tiles can be named. Backwards they can be chosen only by letting
# it time several, or it has none for such blocks on some GPUs; with one depth of pipeline only three of the twelve are compiled.
SMALL = {"fwd_BLOCK_M": 64, "fwd_BLOCK_N": 64, "fwd_num_warps": 4, "fwd_num_stages": 3, "bwd_num_stages": 3}
GRAPHS = 64  # that a process may need; the usual 8 are fewer than an afternoon in a notebook
OPTIONS: dict[str, Any] = {"max_autotune": True, "max_autotune_gemm_backends": "ATEN"}


def suits(q_BHLK: Tensor, dropout: float) -> bool:
    return q_BHLK.is_cuda and TRITON and not dropout and q_BHLK.shape[-1] >= NARROWEST


def mix(q_BHLK: Tensor, k_BHMK: Tensor, v_BHMK: Tensor, view: View) -> Tensor:
    """context_BHLK; a query that sees nobody answers with zeros, as FlexAttention has it."""
    assert view.blocks is not None
    pattern, offset = view.visibility, view.offset

    def counted(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return score + pattern.sees(b, h, i + offset, j).log()

    score_mod, small = counted if pattern.counts else None, view.blocks.size < 128
    inputs = (q_BHLK, k_BHMK, v_BHMK, score_mod, view.blocks.mask)
    if torch.compiler.is_compiling():  # as part of what is compiled around it
        return flex_attention()(*inputs, kernel_options=SMALL if small else None)
    with torch.compiler.set_stance("default"):  # also where models run uncompiled: it would hold all scores at once
        return _compiled(small)(*inputs, kernel_options=SMALL if small else None)


def flex_attention() -> Callable[..., Tensor]:
    from torch.nn.attention import flex_attention  # half a second, that only a GPU is worth

    return flex_attention.flex_attention


@lru_cache(maxsize=2)
def _compiled(small: bool) -> Callable[..., Tensor]:
    """A graph that would have to be broken, or one too many, is an error: uncompiled it would hold all scores at once.

    There are many graphs: with and without gradients, of one text and of several, of each number of heads and each pattern."""
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, GRAPHS)
    return torch.compile(flex_attention(), fullgraph=True, options=OPTIONS if small else None)
