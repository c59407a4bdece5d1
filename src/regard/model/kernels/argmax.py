"""The most probable token of each row and its log-probability, from one look at the logits.

Log-probabilities are of all tokens; what is banned can only not be chosen. Of equal logits, the lower id is taken. A program has
one row: each of its threads keeps a running sum and the best of what it has seen, and only at the end do they compare.
Dims: B rows, V vocabulary, N tokens looked at together.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs
from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.model.kernels.linear import follow, overlapping

BLOCK, WARPS = 8192, 16


class Picked(NamedTuple):
    logprob_B1: Tensor  # minus infinity where nothing can follow
    token_B1: Tensor
    broken_B: Tensor  # where the logits are no numbers


def pick(logits_BV: Tensor, banned_V: Tensor | None, eos: int, minimum: int, step_1: Tensor) -> Picked:
    """`banned_V` is True where a token may not be chosen; `eos` may not be before step `minimum`."""
    rows, vocabulary = logits_BV.shape
    picked = Picked(
        torch.empty(rows, 1, dtype=torch.float32, device=logits_BV.device),
        torch.empty(rows, 1, dtype=torch.long, device=logits_BV.device),
        torch.empty(rows, dtype=torch.bool, device=logits_BV.device),
    )
    overlap = overlapping(logits_BV)
    block = min(BLOCK, triton.next_power_of_2(vocabulary))
    sizes = dict(BLOCK=block, OVERLAP=overlap, num_warps=WARPS, launch_pdl=overlap)
    _pick[(rows,)](logits_BV, banned_V, step_1, *picked, logits_BV.stride(0), vocabulary, eos, minimum, **sizes)
    return picked


@triton.jit(do_not_specialize=["eos", "minimum"])
def _pick(
    logits, banned, step_1, logprob, token, broken,
    row, vocabulary, eos, minimum,
    BLOCK: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0)
    follow(OVERLAP)
    never = tl.where(tl.load(step_1) < minimum, eos, -1)
    most_N = tl.full((BLOCK,), float("-inf"), tl.float32)
    best_N, total_N = most_N, tl.zeros((BLOCK,), tl.float32)
    best_id_N = tl.arange(0, BLOCK)
    for start in range(0, vocabulary, BLOCK):
        id_N = start + tl.arange(0, BLOCK)
        inside_N = id_N < vocabulary
        logit_N = tl.load(logits + b.to(tl.int64) * row + id_N, mask=inside_N, other=float("-inf")).to(tl.float32)
        largest_N = tl.maximum(most_N, logit_N)
        base_N = tl.where(largest_N == float("-inf"), 0.0, largest_N)
        total_N = total_N * tl.exp(most_N - base_N) + tl.exp(logit_N - base_N)
        most_N = largest_N
        allowed_N = id_N != never
        if banned is not None:
            allowed_N &= tl.load(banned + id_N, mask=inside_N, other=1) == 0
        better_N = allowed_N & (logit_N > best_N)
        best_N, best_id_N = tl.where(better_N, logit_N, best_N), tl.where(better_N, id_N, best_id_N)
    most, best = tl.max(most_N, 0), tl.max(best_N, 0)
    total = tl.sum(total_N * tl.exp(most_N - tl.where(most == float("-inf"), 0.0, most)), 0)
    first = tl.min(tl.where(best_N == best, best_id_N, vocabulary), 0)
    is_broken = total != total  # one logit that is no number, or infinite, spoils the sum
    tl.store(logprob + b, tl.where(best == float("-inf"), best, best - most - tl.log(total)))
    tl.store(token + b, tl.where(is_broken | (best == float("-inf")), 0, first).to(tl.int64))
    tl.store(broken + b, is_broken)
