"""Softmax attention by blocks, on a GPU: FlexAttention, compiled once a process, given our map of blocks (Dong et al. 2024).

Lengths that change are compiled once for all. The kernel is told that they are multiples of its largest tile, where they are: by
itself it knows that only of a length that is compiled alone, and is slow without. Decision 0025 has the measurements.

Dims: B batch, H heads, L queries, M keys, K head width, E tokens with all copies of wide blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from regard.model.sparse import split_global as sharing
from regard.model.sparse.split_global import TILE, SplitGlobal
from regard.model.visibility import View

TRITON = find_spec("triton") is not None
NARROWEST = 16  # head width that its kernels multiply
# For blocks of 64, which the usual tiles do not divide. Backwards it takes others only where it may time several, and it times
# them as if all pairs were seen. So they are named where heads are small, and one is left. For wider heads it may choose.
SMALL = {"fwd_BLOCK_M": 64, "fwd_BLOCK_N": 64, "fwd_num_warps": 4, "fwd_num_stages": 3, "bwd_num_stages": 3}
BACKWARDS = {"bwd_BLOCK_M1": 32, "bwd_BLOCK_N1": 64, "bwd_BLOCK_M2": 64, "bwd_BLOCK_N2": 32, "bwd_num_warps": 4}
FITS = 128  # bytes of a head
WINDOW = 4096  # tokens: what is trained on multiples of it are no texts as they come but windows of one size, compiled by itself
GRAPHS = 64  # that a process may need; the usual 8 are fewer than an afternoon in a notebook


def suits(q_BHLK: Tensor, dropout: float) -> bool:
    return q_BHLK.is_cuda and TRITON and not dropout and q_BHLK.shape[-1] >= NARROWEST


def mix(q_BHLK: Tensor, k_BHMK: Tensor, v_BHMK: Tensor, view: View) -> Tensor:
    """context_BHLK; a query that sees nobody answers with zeros, as FlexAttention has it."""
    assert view.blocks is not None
    pattern, offset = view.visibility, view.offset

    def counted(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return score + pattern.sees(b, h, i + offset, j).log()

    blocks, score_mod = view.blocks, counted if pattern.counts else None
    small, whole = blocks.size < 128, blocks.wide is not None or q_BHLK.shape[2] % TILE == k_BHMK.shape[2] % TILE == 0
    options = (tiles(q_BHLK) if small else {}) | ({"IS_DIVISIBLE": True} if whole else {})
    inputs = (q_BHLK, k_BHMK, v_BHMK, score_mod, blocks.mask, blocks.wide, options)
    if torch.compiler.is_compiling():  # as part of what is compiled around it
        return attend(*inputs)
    with torch.compiler.set_stance("default"):  # also where models run uncompiled: it would hold all scores at once
        return _compiled(small, is_window(q_BHLK, k_BHMK))(*inputs)


def is_window(q_BHLK: Tensor, k_BHMK: Tensor) -> bool:
    """Not where it answers: there batches are of any size, and each would be compiled by itself, too."""
    return q_BHLK.requires_grad and q_BHLK.shape[2] % WINDOW == k_BHMK.shape[2] % WINDOW == 0


def tiles(q_BHLK: Tensor) -> dict[str, int]:
    return SMALL | (BACKWARDS if q_BHLK.shape[-1] * q_BHLK.dtype.itemsize <= FITS else {})


def attend(
    q_BHLK: Tensor, k_BHMK: Tensor, v_BHMK: Tensor, score_mod: Any, mask: Any, wide: SplitGlobal | None, options: Any
) -> Tensor:
    from torch.nn.attention.flex_attention import AuxRequest, flex_attention  # half a second, that only a GPU is worth

    def kernel(q_BHEK: Tensor, k_BHEK: Tensor, v_BHEK: Tensor) -> tuple[Tensor, Tensor]:
        wanted = AuxRequest(lse=True)
        context_BHEK, found = flex_attention(q_BHEK, k_BHEK, v_BHEK, score_mod, mask, kernel_options=options, return_aux=wanted)
        assert found.lse is not None
        return context_BHEK, found.lse

    if wide is not None:
        return sharing.mix(q_BHLK, k_BHMK, v_BHMK, wide, kernel)
    return flex_attention(q_BHLK, k_BHMK, v_BHMK, score_mod, mask, kernel_options=options)


@lru_cache(maxsize=4)
def _compiled(small: bool, alone: bool) -> Callable[..., Tensor]:
    """A graph that would have to be broken, or one too many, is an error: uncompiled it would hold all scores at once.

    There are many graphs: with and without gradients, of one text and of several, of each number of heads and each pattern."""
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, GRAPHS)
    dynamic = False if alone else None
    return torch.compile(attend, fullgraph=True, dynamic=dynamic, options=compile_options() if small else None)


@cache
def compile_options() -> dict[str, Any]:
    """For all that FlexAttention with blocks of 64 is a part of. No kernel is compiled and timed twice, as with tiles named."""
    from torch._inductor.select_algorithm import add_preprocessing_fn

    add_preprocessing_fn(lambda choices: list({choice.hash_key(): choice for choice in choices}.values()))
    return {"max_autotune": True, "max_autotune_gemm_backends": "ATEN"}
