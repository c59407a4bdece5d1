"""One step of attention over a cache, in one kernel: it writes the newest keys and values and attends to all visible slots.

A program has one lane and one head, and walks once over the slots its lane descends from. Places of a tile keep a running softmax
each (Milakov & Gimelshein 2018), so threads compare what they found only at the end. The newest key and value are taken from the
product that made them, not from the slot they are written into: so nothing waits for its own writing, and however large the cache
is, only slots that were written before are read. What happens to the newest query and key before they meet is done on the way:
the norm of each (Henry et al. 2020), then the rotation by their position. Heads that share keys and values read the same slots;
the first of them writes.

Dims: S sentences, W lanes, R = S W rows, H heads, G key/value heads, N slots, K head width, E = (H + 2 G) K.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs
from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

from regard.model.kernels.linear import follow, overlapping

TILE, WARPS = 2**14, 4  # bytes of keys looked at together, and by how many warps


class Newest(NamedTuple):
    """The preparation of the newest queries and keys: an RMS norm of each, and a rotation of both."""

    query_norm: nn.RMSNorm | None = None
    key_norm: nn.RMSNorm | None = None
    cos_RK: Tensor | None = None
    sin_RK: Tensor | None = None

    @property
    def arguments(self) -> tuple[Tensor | float | None, ...]:
        if self.query_norm is None or self.key_norm is None:
            return None, None, 0.0, self.cos_RK, self.sin_RK
        assert self.query_norm.eps is not None
        return self.query_norm.weight, self.key_norm.weight, self.query_norm.eps, self.cos_RK, self.sin_RK


AS_THEY_ARE = Newest()


def attend_own(
    qkv_RE: Tensor,
    mask_SHWN: Tensor,
    kv_2SGNK: Tensor,
    slots_W: Tensor,
    newest: Newest = AS_THEY_ARE,
    *,
    scaled: bool = True,
    ring: bool = False,
) -> Tensor:
    """Return context_RI; lane w writes slots_W[w] and sees only its own of the new slots. The mask is added to scores.

    In a ring the newest token takes the slot of the oldest, so slots behind it were written, too.
    """
    return _launch(qkv_RE, mask_SHWN, kv_2SGNK[0], kv_2SGNK[1], slots_W, newest, scaled, ring)


def attend_memory(
    q_RI: Tensor, mask_SHWN: Tensor, k_SGNK: Tensor, v_SGNK: Tensor, query_norm: nn.RMSNorm | None = None, *, scaled: bool = True
) -> Tensor:
    """Return context_RI over a source: nothing is written, and all lanes see the same keys."""
    return _launch(q_RI, mask_SHWN, k_SGNK, v_SGNK, None, Newest(query_norm, query_norm), scaled, ring=False)


def _launch(
    q_RE: Tensor,
    mask_SHWN: Tensor,
    k_SGNK: Tensor,
    v_SGNK: Tensor,
    slots_W: Tensor | None,
    newest: Newest,
    scaled: bool,
    ring: bool,
) -> Tensor:
    sentences, kv_heads, slots, head_width = k_SGNK.shape
    lanes, heads = len(q_RE) // sentences, q_RE.shape[1] // head_width - (0 if slots_W is None else 2 * kv_heads)
    mask_SHWN = mask_SHWN.expand(sentences, heads, lanes, slots)
    context_RI = torch.empty(len(q_RE), heads * head_width, dtype=q_RE.dtype, device=q_RE.device)
    block_k = triton.next_power_of_2(head_width)
    overlap = overlapping(q_RE)
    _attend[(lanes, heads, sentences)](
        *(q_RE, k_SGNK, v_SGNK, mask_SHWN, slots_W, context_RI, *newest.arguments),
        *(*k_SGNK.stride()[:3], *v_SGNK.stride()[:3], *mask_SHWN.stride()),
        *(heads, slots, head_width**-0.5 if scaled else 1.0),
        K=head_width,
        SHARING=heads // kv_heads,
        RING=ring,
        BLOCK_N=min(256, TILE // (block_k * k_SGNK.element_size())),
        BLOCK_K=block_k,
        OVERLAP=overlap,
        num_warps=WARPS,
        launch_pdl=overlap,
    )
    return context_RI


@triton.jit(do_not_specialize=["slots"])
def _attend(
    q, k, v, mask, slots_W, context, query_scale, key_scale, epsilon, cos, sin,
    k_s, k_h, k_n, v_s, v_h, v_n, mask_s, mask_h, mask_w, mask_n,
    heads, slots, scale,
    K: tl.constexpr, SHARING: tl.constexpr, RING: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    w, h, s = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    row, kv_h, kv_heads = s * tl.num_programs(0) + w, h // SHARING, heads // SHARING
    k_K = tl.arange(0, BLOCK_K)
    inside_K = k_K < K
    k += s * k_s + kv_h * k_h
    v += s * v_s + kv_h * v_h
    mask += s * mask_s + h * mask_h + w * mask_w
    follow(OVERLAP)
    if slots_W is None:
        q_K = _arrived(q + (row * heads + h) * K, query_scale, epsilon, None, None, row, k_K, inside_K, K) * scale
        walk = _walk(q_K, k, v, mask, k_n, v_n, mask_n, slots, slots, 0, k_K, inside_K, BLOCK_N, BLOCK_K)
        most_N, total_N, context_NK = walk
        newest, newest_v_K = float("-inf"), tl.zeros((BLOCK_K,), tl.float32)
    else:
        q += row * (heads + 2 * kv_heads) * K
        q_K = _arrived(q + h * K, query_scale, epsilon, cos, sin, row, k_K, inside_K, K) * scale
        newest_k_K = _arrived(q + (heads + kv_h) * K, key_scale, epsilon, cos, sin, row, k_K, inside_K, K).to(k.dtype.element_ty)
        newest_v_K = tl.load(q + (heads + kv_heads + kv_h) * K + k_K, mask=inside_K, other=0.0)
        first = tl.load(slots_W).to(tl.int32)
        if h % SHARING == 0:
            tl.store(k + (first + w) * k_n + k_K, newest_k_K, mask=inside_K)
            tl.store(v + (first + w) * v_n + k_K, newest_v_K, mask=inside_K)
        newest = tl.sum(q_K * newest_k_K.to(tl.float32), 0) + tl.load(mask + (first + w) * mask_n).to(tl.float32)
        written, behind = first, slots
        if RING:
            written, behind = slots, first
        walk = _walk(q_K, k, v, mask, k_n, v_n, mask_n, written, behind, tl.num_programs(0), k_K, inside_K, BLOCK_N, BLOCK_K)
        most_N, total_N, context_NK = walk
    base = _finite(tl.maximum(tl.max(most_N, 0), newest))
    fade_N, fade = tl.exp(most_N - base), tl.exp(newest - base)
    total = tl.sum(total_N * fade_N, 0) + fade
    sum_K = tl.sum(context_NK * fade_N[:, None], 0) + newest_v_K.to(tl.float32) * fade
    answer_K = sum_K / tl.where(total == 0.0, 1.0, total)  # a query without visible keys has a zero context
    tl.store(context + (row * heads + h) * K + k_K, answer_K.to(context.dtype.element_ty), mask=inside_K)


@triton.jit
def _arrived(x, scale, epsilon, cos, sin, row, k_K, inside_K, K: tl.constexpr):
    """The query or key at x, past its norm and its rotation, if it has them; coordinate i turns with i + K / 2."""
    x_K = tl.load(x + k_K, mask=inside_K, other=0.0).to(tl.float32)
    rate = 1.0
    if scale is not None:
        rate = tl.rsqrt(tl.sum(x_K * x_K, 0) / K + epsilon)
        x_K *= rate * tl.load(scale + k_K, mask=inside_K, other=0.0).to(tl.float32)
    if cos is not None:
        first_K = k_K < K // 2
        other_K = tl.where(first_K, k_K + K // 2, k_K - K // 2)
        turned_K = tl.load(x + other_K, mask=inside_K, other=0.0).to(tl.float32)
        if scale is not None:
            turned_K *= rate * tl.load(scale + other_K, mask=inside_K, other=0.0).to(tl.float32)
        turned_K = tl.where(first_K, -turned_K, turned_K)
        cos_K = tl.load(cos + row * K + k_K, mask=inside_K, other=0.0)
        x_K = x_K * cos_K + turned_K * tl.load(sin + row * K + k_K, mask=inside_K, other=0.0)
    return x_K


@triton.jit
def _walk(
    q_K, k, v, mask, k_n, v_n, mask_n, written, skipped, skips, k_K, inside_K, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """Over all written slots: of each place in a tile the largest score, the sum of weights, and of weighted values.

    Without `skips` slots from `skipped` on, which are being written."""
    n_N = tl.arange(0, BLOCK_N)
    most_N = tl.full((BLOCK_N,), float("-inf"), tl.float32)
    total_N = tl.zeros((BLOCK_N,), tl.float32)
    context_NK = tl.zeros((BLOCK_N, BLOCK_K), tl.float32)
    mask_N = _added(mask, n_N, mask_n, written, skipped, skips)  # one tile ahead: what is hidden is not even read
    for start in range(0, written, BLOCK_N):
        slot_N = start + n_N
        sees_NK = (mask_N > float("-inf"))[:, None] & inside_K[None, :]
        k_NK = tl.load(k + slot_N[:, None] * k_n + k_K[None, :], mask=sees_NK, other=0.0)
        v_NK = tl.load(v + slot_N[:, None] * v_n + k_K[None, :], mask=sees_NK, other=0.0)
        score_N = tl.sum(q_K[None, :] * k_NK.to(tl.float32), 1) + mask_N
        mask_N = _added(mask, slot_N + BLOCK_N, mask_n, written, skipped, skips)
        largest_N = tl.maximum(most_N, score_N)
        base_N = _finite(largest_N)
        weight_N, fade_N = tl.exp(score_N - base_N), tl.exp(most_N - base_N)
        total_N = total_N * fade_N + weight_N
        context_NK = context_NK * fade_N[:, None] + weight_N[:, None] * v_NK.to(tl.float32)
        most_N = largest_N
    return most_N, total_N, context_NK


@triton.jit
def _added(mask, slot_N, mask_n, written, skipped, skips):
    inside_N = (slot_N < written) & ((slot_N < skipped) | (slot_N >= skipped + skips))
    return tl.load(mask + slot_N * mask_n, mask=inside_N, other=float("-inf")).to(tl.float32)


@triton.jit
def _finite(largest):
    """Return the largest score, or 0 where no score is finite."""
    return tl.where(largest == float("-inf"), 0.0, largest)
