"""Which kernel computes a pattern over so many tokens, and why: by blocks where that was measured to be faster, else all pairs.

What decides is known before any tensor is: the lengths, the device, and the share of blocks that the pattern needs, times what a
pair costs in blocks of that size. Decision 0025 has the measurements.
"""

from __future__ import annotations

from functools import lru_cache
from math import gcd
from typing import TYPE_CHECKING, NamedTuple

import torch

from regard.model.sparse.blocks import between_blocks

if TYPE_CHECKING:
    from regard.model.visibility.base import Visibility

# How long a pair takes in blocks of a size, in times that of all pairs at once under a mask. Smaller blocks leave out more. On a
# GPU only the border was measured, at half of all blocks.
PAIR = {"cpu": {32: 2.3, 64: 1.8, 128: 1.5}, "cuda": {64: 1.8, 128: 1.8}}
WORTH_IT = 0.9  # of the time that all pairs take, at most
SHORTEST = {"cpu": 512, "cuda": 2048}  # queries and keys: below, one dense kernel is faster whatever is left out
LONG = 8192  # tokens: from here blocks that see everything are shared out
KERNELS = {"cpu": "blocks by the fused kernel", "cuda": "blocks by FlexAttention"}
PLAIN = "blocks by plain products, as attention_dropout needs"
NAMES = {"cpu": "CPU", "cuda": "GPU"}
DENSE = "all pairs at once"


class Choice(NamedTuple):
    size: int  # of the blocks; 0: all pairs at once, under a mask where one is needed
    share: float  # of all blocks that are computed
    why: str
    shared: bool = False  # are blocks that see everything shared out?


def choose(pattern: Visibility, length: int, memory: int, offset: int, device: str) -> Choice:
    """`pattern` is one that holds for every batch."""
    if device not in PAIR:
        return Choice(0, 1.0, "there is no kernel for blocks")
    if pattern.grain == 0:
        return Choice(0, 1.0, "everybody is seen")
    if min(length, memory) < SHORTEST[device]:
        return Choice(0, 1.0, f"fewer than {SHORTEST[device]:,} tokens")
    shares = {size: _share(pattern, length, memory, offset, size) for size in _sizes(pattern, device)}
    costs = {size: share * PAIR[device][size] for size, share in shares.items()}
    size = min(costs, key=lambda size: costs[size])
    shared = device == "cuda" and offset == 0 and LONG <= length == memory and _has_wide(pattern, memory, size)
    why = f"{shares[size]:.0%} of blocks of {size} needed" + f", {PAIR['cpu'][size]} times the time a pair" * (device == "cpu")
    return Choice(size if costs[size] <= WORTH_IT else 0, shares[size], why, shared)


def computed(pattern: Visibility, tokens: int) -> float:
    """The share of all pairs that a GPU computes in texts of so many tokens."""
    choice = choose(pattern, tokens, tokens, 0, "cuda")
    return choice.share if choice.size else 1.0


def told(pattern: Visibility, tokens: int, dropout: float = 0.0) -> str:
    """For people: what computes it on each device, in texts of so many tokens, and why."""
    if pattern.reach == (-1, 0):
        return f"{DENSE} (all before it: the kernel leaves out the rest by itself)"
    found = {device: choose(pattern, tokens, tokens, 0, device) for device in PAIR}
    kernels = dict.fromkeys(PAIR, PLAIN) if dropout else KERNELS
    said = {NAMES[device]: f"{kernels[device] if c.size else DENSE} ({c.why})" for device, c in found.items()}
    if not any(choice.size for choice in found.values()):
        return said["CPU"]
    return f"{', '.join(f'on a {name} {words}' for name, words in said.items())}, in {tokens:,} tokens"


def _sizes(pattern: Visibility, device: str) -> list[int]:
    """On a GPU one, as sizes were not raced there: the largest in which no border of the pattern's own blocks lies."""
    sizes = list(PAIR[device])
    if device == "cpu":
        return sizes
    own = gcd(*(part.grain for part in pattern.parts if part.grain > 1))
    return [max((size for size in sizes if own % size == 0), default=sizes[0])]


def _has_wide(pattern: Visibility, memory: int, size: int) -> bool:
    return pattern.settled(memory).wide(torch.zeros(1, 1, dtype=torch.long), size) is not None


@lru_cache(maxsize=1024)
def _share(pattern: Visibility, length: int, memory: int, offset: int, size: int) -> float:
    settled = pattern.settled(memory)
    found = between_blocks(settled, length, memory, size, batch=1, offset=offset, device=torch.device("cpu"))
    return float(found.some.float().mean())
