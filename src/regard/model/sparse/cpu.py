"""Softmax attention by blocks, on a CPU: the keys that a block of queries needs are brought together, and one fused kernel runs.

Forwards keeps what a fused kernel keeps, the answer and the logarithm of each row's sum; backwards brings keys together once more
(Dao et al. 2022 recompute in the same way). So memory grows with the number of tokens, and time with the tiles that are needed.
`explicit` is the same with weights that can be dropped, on any device; it keeps them all.

Dims: B batch, H heads, L queries, M keys, K head width, S size of a block, J blocks of queries (jobs), C of them at a time,
X blocks of all sequences, W keys that a job needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.model.position.base import Bias
from regard.model.sparse.blocks import Tiles

AT_ONCE = 2**20  # numbers brought together: of keys as many as of values, and both stay in a cache

_fused = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
_fused_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default


def mix(q_BHLK: Tensor, k_BHMK: Tensor, v_BHMK: Tensor, tiles: Tiles) -> Tensor:
    """Return context_BHLK; it is zero for queries without any tile."""
    q, k, v = (folded(x, tiles) for x in (q_BHLK, k_BHMK, v_BHMK))
    context, _ = _forward(q, k, v, *tiles[1:6])
    return finished(context, tiles, len(q_BHLK))


def folded(x_BHLK: Tensor, tiles: Tiles) -> Tensor:
    """Sequences that are alike are more heads of one sequence."""
    assert tiles.batch in (1, len(x_BHLK)), f"a pattern over {tiles.batch} sequences is not one over {len(x_BHLK)}"
    return x_BHLK if tiles.batch == len(x_BHLK) else x_BHLK.flatten(0, 1)[None]


def finished(context_BHLK: Tensor, tiles: Tiles, batch: int) -> Tensor:
    """Set fully masked rows to zero and restore the batch."""
    if tiles.fully_masked_B1L1 is not None:
        context_BHLK = context_BHLK.masked_fill(tiles.fully_masked_B1L1, 0.0)
    return context_BHLK if tiles.batch == batch else context_BHLK[0].unflatten(0, (batch, -1))


class Chunk(NamedTuple):
    jobs_C: Tensor
    keys_CN: Tensor
    added_C1SW: Tensor | None


def chunks(tiles: Tiles, width: int, dtype: torch.dtype) -> Iterator[Chunk]:
    """Yield jobs that need equally many keys, a few at a time; a key is `width` numbers."""
    _, size, jobs_J, keys_T, groups_G3, added_TSS, _ = tiles
    job = tile = asked = 0
    for jobs, count, masked in groups_G3.tolist():
        step = max(1, AT_ONCE // (width * size * count))
        for start in range(0, jobs, step):
            many = min(step, jobs - start)
            keys_CN = keys_T[tile : tile + many * count].view(many, count)
            added_C1SW = None
            if masked and added_TSS is not None:
                added = added_TSS[asked : asked + many * count].unflatten(0, (many, count)).transpose(1, 2)
                added_C1SW = added.flatten(2)[:, None].to(dtype)
                asked += many * count
            yield Chunk(jobs_J[job : job + many], keys_CN, added_C1SW)
            job, tile = job + many, tile + many * count


def blocks(x_BHLK: Tensor, size: int) -> Tensor:
    """x_XSHK: the rows of all sequences in blocks, the last of each filled up with zeros."""
    x_BLHK = x_BHLK.transpose(1, 2)
    if short := -x_BLHK.shape[1] % size:
        x_BLHK = F.pad(x_BLHK, (0, 0, 0, 0, 0, short))
    return x_BLHK.unflatten(1, (-1, size)).flatten(0, 1)


def rows(x_XSHK: Tensor, batch: int, length: int) -> Tensor:
    """x_BHLK again."""
    return x_XSHK.flatten(0, 1).unflatten(0, (batch, -1))[:, :length].transpose(1, 2)


def together(x_XSHK: Tensor, which_CN: Tensor) -> Tensor:
    """x_CHWK, W = N S: the blocks that each job needs, one behind the other."""
    x_CWHK = x_XSHK.index_select(0, which_CN.flatten()).unflatten(0, tuple(which_CN.shape)).flatten(1, 2)
    return x_CWHK.transpose(1, 2)


def _exact(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)


@torch.library.custom_op("regard::blocked", mutates_args=(), device_types="cpu")
def _forward(
    q_BHLK: Tensor,
    k_BHMK: Tensor,
    v_BHMK: Tensor,
    size: int,
    jobs_J: Tensor,
    keys_T: Tensor,
    groups_G3: Tensor,
    added_TSS: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """context_BHLK and lse_JHS. One operator, so that a compiled model holds one node, however the tiles lie."""
    batch, heads, length, width = q_BHLK.shape
    q_XSHK, k_XSHK, v_XSHK = (blocks(x, size) for x in (q_BHLK, k_BHMK, v_BHMK))
    context_XSHK = q_BHLK.new_zeros(q_XSHK.shape)
    lse_JHS = q_BHLK.new_zeros(len(jobs_J), heads, size, dtype=_exact(q_BHLK))
    done = 0
    for jobs_C, keys_CN, added in chunks(
        Tiles(batch, size, jobs_J, keys_T, groups_G3, added_TSS, None), heads * width, q_BHLK.dtype
    ):
        q, k, v = together(q_XSHK, jobs_C[:, None]), together(k_XSHK, keys_CN), together(v_XSHK, keys_CN)
        context_CHSK, lse_CHS = _fused(q, k, v, attn_mask=added)
        context_XSHK.index_copy_(0, jobs_C, context_CHSK.transpose(1, 2))
        lse_JHS[done : done + len(jobs_C)] = lse_CHS
        done += len(jobs_C)
    return rows(context_XSHK, batch, length), lse_JHS


@_forward.register_fake
def _(q_BHLK, k_BHMK, v_BHMK, size, jobs_J, keys_T, groups_G3, added_TSS):  # type: ignore[no-untyped-def]
    batch, heads, length, width = q_BHLK.shape
    padded = -(-length // size) * size
    context_BHLK = q_BHLK.new_empty(batch, padded, heads, width)[:, :length].transpose(1, 2)
    return context_BHLK, q_BHLK.new_empty(len(jobs_J), heads, size, dtype=_exact(q_BHLK))


@torch.library.custom_op("regard::blocked_backward", mutates_args=(), device_types="cpu")
def _backward(
    gradient_BHLK: Tensor,
    q_BHLK: Tensor,
    k_BHMK: Tensor,
    v_BHMK: Tensor,
    context_BHLK: Tensor,
    lse_JHS: Tensor,
    size: int,
    jobs_J: Tensor,
    keys_T: Tensor,
    groups_G3: Tensor,
    added_TSS: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    (batch, heads, length, width), memory = q_BHLK.shape, k_BHMK.shape[2]
    given = [blocks(x, size) for x in (gradient_BHLK, q_BHLK, context_BHLK)]
    k_XSHK, v_XSHK = blocks(k_BHMK, size), blocks(v_BHMK, size)
    dq_XSHK, dk_XSHK, dv_XSHK = (torch.zeros(x.shape, dtype=x.dtype) for x in (given[1], k_XSHK, v_XSHK))
    done = 0
    for jobs_C, keys_CN, added in chunks(
        Tiles(batch, size, jobs_J, keys_T, groups_G3, added_TSS, None), heads * width, q_BHLK.dtype
    ):
        gradient, q, context = (together(x, jobs_C[:, None]) for x in given)
        k, v, lse_CHS = together(k_XSHK, keys_CN), together(v_XSHK, keys_CN), lse_JHS[done : done + len(jobs_C)]
        dq, dk, dv = _fused_backward(gradient, q, k, v, context, lse_CHS, 0.0, False, attn_mask=added)
        dq_XSHK.index_copy_(0, jobs_C, dq.transpose(1, 2))
        for whole_XSHK, part_CHWK in ((dk_XSHK, dk), (dv_XSHK, dv)):
            whole_XSHK.index_add_(0, keys_CN.flatten(), part_CHWK.transpose(1, 2).unflatten(1, (-1, size)).flatten(0, 1))
        done += len(jobs_C)
    return rows(dq_XSHK, batch, length), rows(dk_XSHK, batch, memory), rows(dv_XSHK, batch, memory)


@_backward.register_fake
def _(gradient_BHLK, q_BHLK, k_BHMK, v_BHMK, context_BHLK, lse_JHS, size, jobs_J, keys_T, groups_G3, added_TSS):  # type: ignore[no-untyped-def]
    def like(x_BHLK: Tensor) -> Tensor:
        batch, heads, length, width = x_BHLK.shape
        return x_BHLK.new_empty(batch, -(-length // size) * size, heads, width)[:, :length].transpose(1, 2)

    return like(q_BHLK), like(k_BHMK), like(v_BHMK)


def _keep(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
    q, k, v, size, *tiles = inputs
    ctx.size = size
    ctx.save_for_backward(q, k, v, *output, *tiles)
    ctx.mark_non_differentiable(output[1])


def _gradients(ctx, gradient_BHLK, _):  # type: ignore[no-untyped-def]
    q, k, v, context_BHLK, lse_JHS, *tiles = ctx.saved_tensors
    return (*_backward(gradient_BHLK, q, k, v, context_BHLK, lse_JHS, ctx.size, *tiles), *[None] * 5)


_forward.register_autograd(_gradients, setup_context=_keep)


def explicit(q_BHLK: Tensor, k_BHMK: Tensor, v_BHMK: Tensor, tiles: Tiles, dropout: float, bias: Bias | None = None) -> Tensor:
    """Return context_BHLK with weights that are kept, so that some can be dropped and a bias gets its gradient, tile by tile."""
    q, k, v = (folded(x, tiles) for x in (q_BHLK, k_BHMK, v_BHMK))
    batch, heads, length, width = q.shape
    q_XSHK, k_XSHK, v_XSHK = (blocks(x, tiles.size) for x in (q, k, v))
    contexts = [q_XSHK[:0]]
    for jobs_C, keys_CN, added in chunks(tiles, heads * width, q.dtype):
        scores = together(q_XSHK, jobs_C[:, None]) @ together(k_XSHK, keys_CN).mT * width**-0.5
        if bias is not None:
            scores = scores + _bias_of_tiles(bias, tiles, jobs_C, keys_CN, heads).to(scores.dtype)
        weights = (scores if added is None else scores + added).softmax(-1)
        contexts.append((F.dropout(weights, dropout) @ together(v_XSHK, keys_CN)).transpose(1, 2))
    context_XSHK = torch.zeros_like(q_XSHK).index_copy(0, tiles.jobs_J, torch.cat(contexts))
    return finished(rows(context_XSHK, batch, length), tiles, len(q_BHLK))


def _bias_of_tiles(bias: Bias, tiles: Tiles, jobs_C: Tensor, keys_CN: Tensor, heads: int) -> Tensor:
    """Return bias_CHSW of the queries and keys of these tiles. Sequences that are alike are more heads of one."""
    _, own, length, memory = bias.shape
    rows, columns, place_S = -(-length // tiles.size), -(-memory // tiles.size), torch.arange(tiles.size, device=jobs_C.device)
    i_CS = ((jobs_C % rows)[:, None] * tiles.size + place_S).clamp(max=length - 1)
    j_CW = ((keys_CN % columns)[..., None] * tiles.size + place_S).clamp(max=memory - 1).flatten(1)
    head_H = torch.arange(heads, device=jobs_C.device)
    b = (head_H // own)[:, None, None] if tiles.batch == 1 else (jobs_C // rows)[:, None, None, None]
    return bias.at(b, (head_H % own)[:, None, None], i_CS[:, None, :, None], j_CW[:, None, None])
