"""One step of attention over a cache, in one kernel: it writes the newest keys and values and attends to all visible slots.

A program has one lane and one head, and walks once over the slots its lane descends from. Places of a tile keep a running softmax
each (Milakov & Gimelshein 2018), so threads compare what they found only at the end. The newest key and value are taken from the
product that made them, not from the slot they are written into: so nothing waits for its own writing, and however large the cache
is, only slots that were written before are read.

Dims: S sentences, W lanes, R = S W rows, H heads, N slots, K head width, D width, E three times the width.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs
from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.model.kernels.linear import follow, overlapping

TILE, WARPS = 2**14, 4  # bytes of keys looked at together, and by how many warps


def attend_own(qkv_RE: Tensor, mask_S1WN: Tensor, kv_2SHNK: Tensor, slots_W: Tensor) -> Tensor:
    """Return context_RD; lane w writes slots_W[w] and sees only its own of the new slots. The mask is added to scores."""
    return _launch(qkv_RE, mask_S1WN, kv_2SHNK[0], kv_2SHNK[1], slots_W)


def attend_memory(q_RD: Tensor, mask_S11N: Tensor, k_SHNK: Tensor, v_SHNK: Tensor) -> Tensor:
    """Return context_RD over a source: nothing is written, and all lanes see the same keys."""
    return _launch(q_RD, mask_S11N, k_SHNK, v_SHNK, None)


def _launch(q_RE: Tensor, mask_S1WN: Tensor, k_SHNK: Tensor, v_SHNK: Tensor, slots_W: Tensor | None) -> Tensor:
    sentences, heads, slots, head_width = k_SHNK.shape
    lanes = len(q_RE) // sentences
    mask_SWN = mask_S1WN.expand(sentences, 1, lanes, slots)[:, 0]
    context_RD = torch.empty(len(q_RE), heads * head_width, dtype=q_RE.dtype, device=q_RE.device)
    block_k = triton.next_power_of_2(head_width)
    overlap = overlapping(q_RE)
    _attend[(lanes, heads, sentences)](
        *(q_RE, k_SHNK, v_SHNK, mask_SWN, slots_W, context_RD),
        *(*k_SHNK.stride()[:3], *v_SHNK.stride()[:3], *mask_SWN.stride()),
        *(heads, slots, head_width**-0.5),
        K=head_width,
        BLOCK_N=min(256, TILE // (block_k * k_SHNK.element_size())),
        BLOCK_K=block_k,
        OVERLAP=overlap,
        num_warps=WARPS,
        launch_pdl=overlap,
    )
    return context_RD


@triton.jit(do_not_specialize=["slots"])
def _attend(
    q, k, v, mask, slots_W, context,
    k_s, k_h, k_n, v_s, v_h, v_n, mask_s, mask_w, mask_n,
    heads, slots, scale,
    K: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    w, h, s = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    row = s * tl.num_programs(0) + w
    k_K = tl.arange(0, BLOCK_K)
    inside_K = k_K < K
    k += s * k_s + h * k_h
    v += s * v_s + h * v_h
    mask += s * mask_s + w * mask_w
    follow(OVERLAP)
    if slots_W is None:
        q_K = tl.load(q + (row * heads + h) * K + k_K, mask=inside_K, other=0.0).to(tl.float32) * scale
        most_N, total_N, context_NK = _walk(q_K, k, v, mask, k_n, v_n, mask_n, slots, k_K, inside_K, BLOCK_N, BLOCK_K)
        newest, newest_v_K = float("-inf"), tl.zeros((BLOCK_K,), tl.float32)
    else:
        q += (row * 3 * heads + h) * K
        q_K = tl.load(q + k_K, mask=inside_K, other=0.0).to(tl.float32) * scale
        newest_k_K = tl.load(q + heads * K + k_K, mask=inside_K, other=0.0)
        newest_v_K = tl.load(q + 2 * heads * K + k_K, mask=inside_K, other=0.0)
        first = tl.load(slots_W).to(tl.int32)
        tl.store(k + (first + w) * k_n + k_K, newest_k_K, mask=inside_K)
        tl.store(v + (first + w) * v_n + k_K, newest_v_K, mask=inside_K)
        newest = tl.sum(q_K * newest_k_K.to(tl.float32), 0) + tl.load(mask + (first + w) * mask_n).to(tl.float32)
        most_N, total_N, context_NK = _walk(q_K, k, v, mask, k_n, v_n, mask_n, first, k_K, inside_K, BLOCK_N, BLOCK_K)
    base = _finite(tl.maximum(tl.max(most_N, 0), newest))
    fade_N, fade = tl.exp(most_N - base), tl.exp(newest - base)
    total = tl.sum(total_N * fade_N, 0) + fade
    sum_K = tl.sum(context_NK * fade_N[:, None], 0) + newest_v_K.to(tl.float32) * fade
    answer_K = sum_K / tl.where(total == 0.0, 1.0, total)  # a query without visible keys has a zero context
    tl.store(context + (row * heads + h) * K + k_K, answer_K.to(context.dtype.element_ty), mask=inside_K)


@triton.jit
def _walk(q_K, k, v, mask, k_n, v_n, mask_n, slots, k_K, inside_K, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """Over all slots before this one: of each place in a tile the largest score, the sum of weights, and of weighted values."""
    n_N = tl.arange(0, BLOCK_N)
    most_N = tl.full((BLOCK_N,), float("-inf"), tl.float32)
    total_N = tl.zeros((BLOCK_N,), tl.float32)
    context_NK = tl.zeros((BLOCK_N, BLOCK_K), tl.float32)
    mask_N = _added(mask, n_N, mask_n, slots)  # one tile ahead: what is hidden is not even read
    for start in range(0, slots, BLOCK_N):
        slot_N = start + n_N
        sees_NK = (mask_N > float("-inf"))[:, None] & inside_K[None, :]
        k_NK = tl.load(k + slot_N[:, None] * k_n + k_K[None, :], mask=sees_NK, other=0.0)
        v_NK = tl.load(v + slot_N[:, None] * v_n + k_K[None, :], mask=sees_NK, other=0.0)
        score_N = tl.sum(q_K[None, :] * k_NK.to(tl.float32), 1) + mask_N
        mask_N = _added(mask, slot_N + BLOCK_N, mask_n, slots)
        largest_N = tl.maximum(most_N, score_N)
        base_N = _finite(largest_N)
        weight_N, fade_N = tl.exp(score_N - base_N), tl.exp(most_N - base_N)
        total_N = total_N * fade_N + weight_N
        context_NK = context_NK * fade_N[:, None] + weight_N[:, None] * v_NK.to(tl.float32)
        most_N = largest_N
    return most_N, total_N, context_NK


@triton.jit
def _added(mask, slot_N, mask_n, slots):
    return tl.load(mask + slot_N * mask_n, mask=slot_N < slots, other=float("-inf")).to(tl.float32)


@triton.jit
def _finite(largest):
    """Return the largest score, or 0 where no score is finite."""
    return tl.where(largest == float("-inf"), 0.0, largest)
