"""Softmax attention by blocks, on a GPU: FlexAttention, compiled once a process, given our map of blocks (Dong et al. 2024).

Lengths that change are compiled once for all. A hint says that they are multiples of the largest tile, where they are: the
compiler finds this by itself only for a length that is compiled alone, and the kernel is slow without it.
Decision 0025 has the measurements.

Dims: B batch, H heads, L queries, M keys, K head width, E tokens with all copies of wide blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.model.position.base import Bias, ScoreBias
from regard.model.sparse import split_global as sharing
from regard.model.sparse.blocks import Blocks, blocks_of
from regard.model.sparse.split_global import TILE, SplitGlobal
from regard.model.visibility import View

# For blocks of 64, which the usual tiles do not divide. Backwards it takes others only where it may time several, and it times
# them as if all pairs were seen. So they are named where heads are small, and one is left. For wider heads it may choose.
SMALL = {"fwd_BLOCK_M": 64, "fwd_BLOCK_N": 64, "fwd_num_warps": 4, "fwd_num_stages": 3, "bwd_num_stages": 3}
BACKWARDS = {"bwd_BLOCK_M1": 32, "bwd_BLOCK_N1": 64, "bwd_BLOCK_M2": 64, "bwd_BLOCK_N2": 32, "bwd_num_warps": 4}
FITS = 128  # bytes of a head
WINDOW = 4096  # tokens: what is trained on multiples of it are no texts as they come but windows of one size, compiled by itself
GRAPHS = 64  # that a process may need; the usual 8 are fewer than an afternoon in a notebook


class PackedTable(NamedTuple):
    """A learned bias by distance in packed sequences: what `kernels/table_gradient.py` needs for its gradient."""

    table_HR: Tensor
    starts_N: Tensor
    longest: int
    left: int
    right: int


def score_function(view: View, bias: ScoreBias | None) -> Callable[..., Tensor] | None:
    """Return what FlexAttention does to every score: add the bias of positions, and log n for a key that is seen n times."""
    pattern, offset = view.visibility, view.offset
    if bias is None and not pattern.counts:
        return None

    def changed(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        score = score if bias is None else score + bias(b, h, i, j).to(score.dtype)
        return score + pattern.sees(b, h, i + offset, j).log() if pattern.counts else score

    return changed


def blocks_for(view: View, bias: Bias | None) -> Blocks:
    """Return the view's map of blocks; with a bias, which is asked by position, one without copies of wide blocks."""
    if view.blocks is not None and (bias is None or view.blocks.wide is None):
        return view.blocks
    assert isinstance(view.offset, int)
    size = 128 if view.blocks is None else view.blocks.size
    sizes = view.length, view.memory, size
    return blocks_of(view.visibility, *sizes, batch=view.batch, offset=view.offset, device=view.device)


def mix(q_BHLK: Tensor, k_BHMK: Tensor, v_BHMK: Tensor, view: View, bias: Bias | None = None) -> Tensor:
    """Return context_BHLK; FlexAttention returns zeros for a query that sees no key. Gradients flow into the bias's tensors."""
    table, at = None, None if bias is None else bias.at
    if bias is not None and bias.learned is not None and view.packed is not None and torch.is_grad_enabled():
        queries, at = view.packed.queries, bias.learned.at
        table = PackedTable(bias.learned.table_HR, queries.starts_N, queries.longest, *view.packed.reach)
    blocks, score_mod = blocks_for(view, bias), score_function(view, at)
    small, whole = blocks.size < 128, blocks.wide is not None or q_BHLK.shape[2] % TILE == k_BHMK.shape[2] % TILE == 0
    options = (tiles(q_BHLK) if small else {}) | ({"IS_DIVISIBLE": True} if whole else {})
    inputs = (q_BHLK, k_BHMK, v_BHMK, score_mod, blocks.mask, blocks.wide, options, table)
    if torch.compiler.is_compiling():  # as part of what is compiled around it
        return attend(*inputs)
    with torch.compiler.set_stance("default"):  # also where models run uncompiled: it would hold all scores at once
        alone = is_window(q_BHLK, k_BHMK) or (bias is not None and bias.fixed_shapes and q_BHLK.requires_grad)
        return _compiled(small, alone)(*inputs)


def is_window(q_BHLK: Tensor, k_BHMK: Tensor) -> bool:
    """Not where it answers: there batches are of any size, and each would be compiled by itself, too."""
    return q_BHLK.requires_grad and q_BHLK.shape[2] % WINDOW == k_BHMK.shape[2] % WINDOW == 0


def tiles(q_BHLK: Tensor) -> dict[str, int]:
    return SMALL | (BACKWARDS if q_BHLK.shape[-1] * q_BHLK.dtype.itemsize <= FITS else {})


def attend(
    q_BHLK: Tensor,
    k_BHMK: Tensor,
    v_BHMK: Tensor,
    score_mod: Any,
    mask: Any,
    wide: SplitGlobal | None,
    options: Any,
    table: PackedTable | None = None,
) -> Tensor:
    from torch.nn.attention.flex_attention import AuxRequest, flex_attention  # half a second, that only a GPU is worth

    def kernel(q_BHEK: Tensor, k_BHEK: Tensor, v_BHEK: Tensor) -> tuple[Tensor, Tensor]:
        wanted = AuxRequest(lse=True)
        context_BHEK, found = flex_attention(q_BHEK, k_BHEK, v_BHEK, score_mod, mask, kernel_options=options, return_aux=wanted)
        assert found.lse is not None
        return context_BHEK, found.lse

    if table is not None:
        from regard.model.kernels.table_gradient import with_table_gradient

        context_BHLK, lse_BHL = kernel(q_BHLK, k_BHMK, v_BHMK)
        bounds = table.longest, table.left, table.right
        return with_table_gradient(context_BHLK, lse_BHL, q_BHLK, k_BHMK, v_BHMK, table.table_HR, table.starts_N, *bounds)
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
    """Return compiler options for FlexAttention with blocks of 64; no kernel is compiled and timed twice."""
    from torch._inductor.select_algorithm import add_preprocessing_fn

    add_preprocessing_fn(lambda choices: list({choice.hash_key(): choice for choice in choices}.values()))
    return {"max_autotune": True, "max_autotune_gemm_backends": "ATEN"}
