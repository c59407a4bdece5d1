"""The gradient of a bias by distance: a sum over all pairs of a distance, without a matrix of all pairs.

A number b[h, j - i] is added to the score of query i and key j, as T5 does (Raffel et al. 2020, section 2.1). Its gradient is the
sum of dS over all pairs of the same distance and head, in every sequence. FlexAttention adds these up pair by pair, and pairs of
one distance wait for each other (docs/log.md has how long). Here a program has one head and one diagonal of blocks. All blocks of
a diagonal have the same distances at the same places, so it adds up dS in registers over blocks and sequences, and only at the
end the places of each distance:

    dS = P (dO V^T - rowsum(O dO)),   P = exp(S - lse)        Dao et al. 2022, "FlashAttention", appendix B.4

Sequences are packed end to end. Dims: H heads, T tokens, K head width, R distances from -R // 2 to R // 2, N sequences; L queries
and M keys of a block.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs
from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK, SPLITS, WARPS = 64, 16, 4  # queries and keys of a block; programs that share the sequences of a diagonal


def with_table_gradient(
    context_1HTK: Tensor,
    lse_1HT: Tensor,
    q_1HTK: Tensor,
    k_1HTK: Tensor,
    v_1HTK: Tensor,
    table_HR: Tensor,
    starts_N: Tensor,
    longest: int,
    left: int,
    right: int,
) -> Tensor:
    """Return the context as it is; on the way back, the gradient of the table is computed by the kernel of this file.

    `starts_N` says where each sequence starts and, one more, where the last one ends; `longest` bounds their lengths. A query
    sees `left` keys before it and `right` after it, all of them where that is -1.
    """
    given = context_1HTK, lse_1HT, q_1HTK, k_1HTK, v_1HTK, table_HR, starts_N, longest, left, right
    found: Tensor = _WithGradient.apply(*given)
    return found


class _WithGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, context, lse, q, k, v, table, starts, longest, left, right):
        ctx.save_for_backward(context, lse, q, k, v, table, starts)
        ctx.bounds = longest, left, right
        return context.clone()

    @staticmethod
    def backward(ctx, gradient):
        context, lse, q, k, v, table, starts = ctx.saved_tensors
        delta = (gradient[0].float() * context[0].float()).sum(-1)
        found = table_gradient(gradient, delta, lse, q, k, v, table, starts, *ctx.bounds)
        return gradient, None, None, None, None, found, None, None, None, None


@torch.library.custom_op("regard::table_gradient", mutates_args=())
def table_gradient(
    gradient: Tensor,
    delta: Tensor,
    lse: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    table: Tensor,
    starts: Tensor,
    longest: int,
    left: int,
    right: int,
) -> Tensor:
    """Return the gradient of the table, in float32, from that of the context; delta_HT is rowsum(O dO)."""
    heads, distances = table.shape
    found_HR = torch.zeros(heads, distances, dtype=torch.float32, device=table.device)
    q, k, v, gradient = (part[0] if part.stride(-1) == 1 else part[0].contiguous() for part in (q, k, v, gradient))
    most = -(-longest // BLOCK) - 1
    lowest, highest = (most if reach < 0 else min(most, -(-reach // BLOCK)) for reach in (left, right))
    sum_diagonals[(lowest + highest + 1, heads, SPLITS)](
        *(q, k, v, gradient, lse.contiguous(), delta.contiguous(), table.float().contiguous(), found_HR, starts),
        *(*q.stride()[:2], *k.stride()[:2], *v.stride()[:2], *gradient.stride()[:2]),
        *(q.shape[1], len(starts) - 1, -lowest, distances, q.shape[-1] ** -0.5, left, right),
        K=q.shape[-1],
        BLOCK_K=triton.next_power_of_2(q.shape[-1]),
        EXACT="ieee" if q.dtype == torch.float32 else "tf32",
        BLOCK=BLOCK,
        SPLITS=SPLITS,
        num_warps=WARPS,
    )
    return found_HR


@table_gradient.register_fake
def _(gradient, delta, lse, q, k, v, table, starts, longest, left, right):
    return torch.empty(table.shape, dtype=torch.float32, device=table.device)


@triton.jit(do_not_specialize=["sequences", "tokens", "lowest"])
def sum_diagonals(
    q, k, v, gradient, lse, delta, table, found, starts,
    q_h, q_t, k_h, k_t, v_h, v_t, g_h, g_t,
    tokens, sequences, lowest, distances, scale, left, right,
    K: tl.constexpr, BLOCK_K: tl.constexpr, EXACT: tl.constexpr, BLOCK: tl.constexpr, SPLITS: tl.constexpr,
):  # fmt: skip
    """Add up dS of one diagonal of blocks in every SPLITS-th sequence, then add each place to its distance."""
    diagonal, h, split = tl.program_id(0) + lowest, tl.program_id(1), tl.program_id(2)
    r_L, k_K = tl.arange(0, BLOCK), tl.arange(0, BLOCK_K)
    inside_K = k_K < K
    distance = diagonal * BLOCK + r_L[None, :] - r_L[:, None]
    place = distance + distances // 2
    seen = ((left < 0) | (distance >= -left)) & ((right < 0) | (distance <= right)) & (place >= 0) & (place < distances)
    bias = tl.load(table + h * distances + place, mask=seen, other=0.0)
    total = tl.zeros([BLOCK, BLOCK], dtype=tl.float32)
    for n in range(split, sequences, SPLITS):
        start = tl.load(starts + n)
        length = tl.load(starts + n + 1) - start
        blocks = tl.cdiv(length, BLOCK)
        for i in range(tl.maximum(0, -diagonal), tl.minimum(blocks, blocks - diagonal)):
            i_L, j_M = i * BLOCK + r_L, (i + diagonal) * BLOCK + r_L
            in_L, in_M = i_L < length, j_M < length
            i_L, j_M = (start + i_L).to(tl.int64), (start + j_M).to(tl.int64)
            rows, columns = in_L[:, None] & inside_K[None, :], in_M[:, None] & inside_K[None, :]
            q_LK = tl.load(q + h * q_h + i_L[:, None] * q_t + k_K[None, :], mask=rows, other=0.0)
            g_LK = tl.load(gradient + h * g_h + i_L[:, None] * g_t + k_K[None, :], mask=rows, other=0.0)
            k_MK = tl.load(k + h * k_h + j_M[:, None] * k_t + k_K[None, :], mask=columns, other=0.0)
            v_MK = tl.load(v + h * v_h + j_M[:, None] * v_t + k_K[None, :], mask=columns, other=0.0)
            lse_L = tl.load(lse + h * tokens + i_L, mask=in_L, other=0.0)
            delta_L = tl.load(delta + h * tokens + i_L, mask=in_L, other=0.0)
            scores = tl.dot(q_LK, tl.trans(k_MK), input_precision=EXACT) * scale + bias
            weights = tl.where(seen & in_L[:, None] & in_M[None, :], tl.exp(scores - lse_L[:, None]), 0.0)
            total += weights * (tl.dot(g_LK, tl.trans(v_MK), input_precision=EXACT) - delta_L[:, None])
    tl.atomic_add(found + h * distances + place, total, mask=seen)
