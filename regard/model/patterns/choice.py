"""Which kernel computes a pattern over so many tokens, and why: by blocks where that was measured to be faster, else all pairs.

What decides is known before any tensor is: the lengths, the device, and the share of blocks that the pattern needs. Decision 0025
has the measurements.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import torch

from regard.model.patterns.blocks import between_blocks

if TYPE_CHECKING:
    from regard.model.patterns.seeing import Visibility

SIZES = {"cpu": (32, 64, 128), "cuda": (64, 128)}  # of blocks that the kernels of a device are fast with
USUAL = {"cpu": 64, "cuda": 128}  # where the pattern has no blocks of its own
SHORTEST = {"cpu": 512, "cuda": 2048}  # queries and keys: below, one dense kernel is faster whatever is left out
LONG = 8192  # tokens: from here blocks that see everything are shared out
LARGEST_SHARE = 0.5  # of all blocks: above, gathering the rest costs what leaving it out saves
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
    if device not in SIZES:
        return Choice(0, 1.0, "there is no kernel for blocks")
    if pattern.grain == 0:
        return Choice(0, 1.0, "everybody is seen")
    if min(length, memory) < SHORTEST[device]:
        return Choice(0, 1.0, f"fewer than {SHORTEST[device]:,} tokens")
    size = _size(pattern.grain, device)
    share = _share(pattern, length, memory, offset, size)
    shared = device == "cuda" and offset == 0 and LONG <= length == memory and _has_wide(pattern, memory, size)
    return Choice(size if share <= LARGEST_SHARE else 0, share, f"{share:.0%} of blocks of {size} needed", shared)


def computed(pattern: Visibility, tokens: int) -> float:
    """The share of all pairs that a GPU computes in texts of so many tokens."""
    choice = choose(pattern, tokens, tokens, 0, "cuda")
    return choice.share if choice.size else 1.0


def told(pattern: Visibility, tokens: int, dropout: float = 0.0) -> str:
    """For people: what computes it on each device, in texts of so many tokens, and why."""
    found = {device: choose(pattern, tokens, tokens, 0, device) for device in SIZES}
    kernels = dict.fromkeys(SIZES, PLAIN) if dropout else KERNELS
    said = {NAMES[device]: f"{kernels[device] if c.size else DENSE} ({c.why})" for device, c in found.items()}
    if not any(choice.size for choice in found.values()):
        return said["CPU"]
    return f"{', '.join(f'on a {name} {words}' for name, words in said.items())}, in {tokens:,} tokens"


def _size(grain: int, device: str) -> int:
    """The largest in which no border of the pattern lies; the usual one, if all are too large for that."""
    return max((size for size in SIZES[device] if grain % size == 0), default=USUAL[device])


def _has_wide(pattern: Visibility, memory: int, size: int) -> bool:
    return pattern.settled(memory).wide(torch.zeros(1, 1, dtype=torch.long), size) is not None


@lru_cache(maxsize=256)
def _share(pattern: Visibility, length: int, memory: int, offset: int, size: int) -> float:
    settled = pattern.settled(memory)
    found = between_blocks(settled, length, memory, size, batch=1, offset=offset, device=torch.device("cpu"))
    return float(found.some.float().mean())
