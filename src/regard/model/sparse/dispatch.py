"""The choice of the attention kernel, and the reason: by blocks where that was measured to be faster, else all pairs.

What decides is known before any tensor is: the lengths, the device, and the share of blocks that the pattern needs, times what a
pair costs in blocks of that size. Decision 0025 has the measurements.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec
from math import gcd
from typing import TYPE_CHECKING, Literal, NamedTuple

import torch
from torch import Tensor

from regard.model.sparse.blocks import between_blocks

if TYPE_CHECKING:
    from regard.model.visibility import View, Visibility

# How long a pair takes in blocks of a size, in times that of all pairs at once under a mask. Smaller blocks leave out more. On a
# GPU only the border was measured, at half of all blocks.
PAIR = {"cpu": {32: 2.3, 64: 1.8, 128: 1.5}, "cuda": {64: 1.8, 128: 1.8}}
WORTH_IT = 0.9  # of the time that all pairs take, at most
SHORTEST = {"cpu": 512, "cuda": 2048}  # queries and keys: below, one dense kernel is faster whatever is left out
LONG = 8192  # tokens: from here blocks that see everything are shared out
KERNELS = {"cpu": "blocks by the fused kernel", "cuda": "blocks by FlexAttention"}
PLAIN = "blocks by plain products, as attention_dropout needs"
BIASED = {"cpu": "blocks by plain products, as a bias of positions needs"}
NAMES = {"cpu": "CPU", "cuda": "GPU"}
SHORT = 256  # keys: up to here, products on a CPU measure faster than its fused kernel, unless gradients are needed
TRITON = find_spec("triton") is not None
NARROWEST = 16  # head width that FlexAttention's kernels multiply
Kernel = Literal["varlen", "flex", "blocked", "blocked weights", "products", "dense"]
DENSE = "all pairs at once"


class Choice(NamedTuple):
    size: int  # of the blocks; 0: all pairs at once, under a mask where one is needed
    share: float  # of all blocks that are computed
    why: str
    shared: bool = False  # are blocks that see everything shared out?


def softmax_kernel(q_BHLK: Tensor, k_BHMK: Tensor, view: View, dropout: float, biased: bool) -> Kernel:
    """Name the kernel for softmax attention over this view; whether a view has blocks, `choose` decided when it was made.

    varlen      flash attention over packed sequences       flex              FlexAttention, a bias as its score function
    blocked     fused kernel of a CPU over blocks           blocked weights   plain products over blocks: dropout or a bias
    products    two batched products, short memories        dense             all pairs at once, bias and mask in one tensor
    """
    flexible = q_BHLK.is_cuda and TRITON and not dropout and q_BHLK.shape[-1] >= NARROWEST
    if view.packed is not None:
        if biased and flexible:
            return "flex"
        return "dense" if biased or dropout or q_BHLK.dtype == torch.float32 else "varlen"
    if view.blocks is not None:
        return "flex" if flexible else "blocked weights" if dropout or biased or q_BHLK.is_cuda else "blocked"
    short = k_BHMK.device.type == "cpu" and k_BHMK.shape[2] <= SHORT
    masked = view.mask is not None or biased
    return "products" if short and masked and not dropout and not torch.is_grad_enabled() else "dense"


def choose(pattern: Visibility, length: int, memory: int, offset: int, device: str) -> Choice:
    """`pattern` is one that holds for every batch."""
    if device not in PAIR:
        return Choice(0, 1.0, "there is no kernel for blocks")
    if pattern.block_size == 0:
        return Choice(0, 1.0, "all pairs are visible")
    if min(length, memory) < SHORTEST[device]:
        return Choice(0, 1.0, f"fewer than {SHORTEST[device]:,} tokens")
    shares = {size: _share(pattern, length, memory, offset, size) for size in _sizes(pattern, device)}
    costs = {size: share * PAIR[device][size] for size, share in shares.items()}
    size = min(costs, key=lambda size: costs[size])
    shared = device == "cuda" and offset == 0 and LONG <= length == memory
    shared = shared and pattern.with_length(memory).wide(torch.zeros(1, 1, dtype=torch.long), size) is not None
    why = f"{shares[size]:.0%} of blocks of {size} needed" + f", {PAIR['cpu'][size]} times the time a pair" * (device == "cpu")
    return Choice(size if costs[size] <= WORTH_IT else 0, shares[size], why, shared)


def computed(pattern: Visibility, tokens: int) -> float:
    """Return the share of all pairs that a GPU computes in texts of this many tokens."""
    choice = choose(pattern, tokens, tokens, 0, "cuda")
    return choice.share if choice.size else 1.0


def describe(pattern: Visibility, tokens: int, dropout: float = 0.0, biased: bool = False) -> str:
    """Return in words which kernel computes the pattern on each device, in texts of this many tokens, and why."""
    if pattern.reach == (-1, 0) and biased:
        return f"{DENSE} (bias and mask in one tensor)"
    if pattern.reach == (-1, 0):
        return f"{DENSE} (all before it: the kernel leaves out the rest by itself)"
    found = {device: choose(pattern, tokens, tokens, 0, device) for device in PAIR}
    kernels = dict.fromkeys(PAIR, PLAIN) if dropout else KERNELS | BIASED if biased else KERNELS
    said = {NAMES[device]: f"{kernels[device] if c.size else DENSE} ({c.why})" for device, c in found.items()}
    if not any(choice.size for choice in found.values()):
        return said["CPU"]
    return f"{', '.join(f'on a {name} {words}' for name, words in said.items())}, in {tokens:,} tokens"


def _sizes(pattern: Visibility, device: str) -> list[int]:
    """On a GPU one, as sizes were not raced there: the largest in which no border of the pattern's own blocks lies."""
    sizes = list(PAIR[device])
    if device == "cpu":
        return sizes
    own = gcd(*(part.block_size for part in pattern.parts if part.block_size > 1))
    return [max((size for size in sizes if own % size == 0), default=sizes[0])]


@lru_cache(maxsize=1024)
def _share(pattern: Visibility, length: int, memory: int, offset: int, size: int) -> float:
    settled = pattern.with_length(memory)
    found = between_blocks(settled, length, memory, size, batch=1, offset=offset, device=torch.device("cpu"))
    return float(found.some.float().mean())
