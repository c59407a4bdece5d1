"""BigBird: a window, global and random blocks (Zaheer et al. 2020).

    bigbird(64)    the paper's base: a window of 3 blocks, 2 global ones (the first and the last), 3 by chance: 512 keys a query

Global are the first block of a sequence and the last, and so on in turn; under a causal mask the last are not known, and
only the first are global.

`BigBirdFixed` is what transformers computes where it answers: it then draws nothing, and looks at the first block once more for
every block that it drew in training. Short texts it looks at as a whole. Here a text's own length decides, not the padded one,
and under a causal mask, where there is no length yet, every block is seen once.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.core.errors import UserError
from regard.model.sparse.blocks import Between, Span
from regard.model.visibility import End, Visibility
from regard.model.visibility.patterns import Block, Global, Last, NeedsLength
from regard.model.visibility.random import Random


def bigbird(block: int = 64, window: int = 3, global_: int = 2, random: int = 3, seed: int = 0) -> Visibility:
    """Return the pattern in blocks of this many tokens; `window` counts the query's own block."""
    if window % 2 == 0:
        raise UserError(f"bigbird: a window of {window} blocks has no middle; give an odd number, such as 3.")
    near, first, last = window // 2, (global_ + 1) // 2, global_ // 2
    pattern: Visibility = Block(block, near)
    if first:
        pattern = pattern | Global(first * block)
    if last:
        pattern = pattern | Last(block, last)
    return pattern | Random(random, seed, block, near, first, last) if random else pattern


@dataclass(frozen=True)
class BigBirdFixed(NeedsLength):
    """The first block is seen 1 + random times, except by the two global blocks."""

    size: int = 64
    random: int = 3
    end: End = None
    sees_itself = sees_first = True

    @property
    def counts(self) -> bool:  # type: ignore[override]
        return self.end is not None

    @property
    def block_size(self) -> int:  # type: ignore[override]
        return self.size

    def sees(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        query, key = i // self.size, j // self.size
        last, whole = self._last(b)
        wide = (query == 0) | (query == last) | whole
        seen = wide | ((query - key).abs() <= 1) | (key == 0) | (key == last)
        return seen * 1 + self.random * ((key == 0) & ~wide) if self.counts else seen

    def between(self, b: Tensor, queries: Span, keys: Span) -> Between:
        """Exact where both spans lie in one block each, and else unsure, as of what is seen more than once."""
        (first, final, _), (first_key, final_key, _) = queries.in_blocks(self.size), keys.in_blocks(self.size)
        last, whole = self._last(b)
        inside = (first == final) & (first_key == final_key)
        wide = (first == 0) | ((first <= last) & (last <= final)) | whole
        near = torch.maximum(first_key - final, first - final_key) <= 1
        some = wide | near | (first_key == 0) | ((first_key <= last) & (last <= final_key))
        return Between(some, some & inside & (wide | (first_key > 0)))

    def _last(self, b: Tensor) -> tuple[Tensor | int, Tensor | bool]:
        """The number of the last block, -1 where it is not known; and whether the text is so short that all see all."""
        if self.end is None:
            return -1, False
        end = self.ends(b)
        return (end - 1) // self.size, end <= (5 + 2 * self.random) * self.size

    def __str__(self) -> str:
        return f"bigbird_fixed({self.size}, {self.random})"
