"""BigBird: a window, global and random blocks (Zaheer et al. 2020).

    bigbird(64)    the paper's base: a window of 3 blocks, 2 global ones (the first and the last), 3 by chance: 512 keys a query

Blocks picked by chance make the longest path between tokens short. Differs from the paper in: picks derive from (seed, block,
number) by a hash, are the same for all heads and layers, and need no list, so that a step of decoding, a padded batch and a full
pass see alike. For that, what may not look ahead picks among the blocks before its own, however long the sequence becomes.

Global are the first block of a sequence and the last, and so on in turn; under a causal mask the last are not known, and
only the first are global.

`BigBirdFixed` is what transformers computes where it answers: it then draws nothing, and looks at the first block once more for
every block that it drew in training. Short texts it looks at as a whole. Here a text's own length decides, not the padded one,
and under a causal mask, where there is no length yet, every block is seen once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import reduce

import torch
from torch import Tensor

from regard.core.errors import UserError
from regard.core.rng import derive_seed
from regard.model.sparse.blocks import Between, Span
from regard.model.visibility import End, Visibility
from regard.model.visibility.patterns import Block, Global, Last, NeedsLength

WORD = 2**32 - 1
ODD = 0x45D9F3B


def hashed(numbers: Tensor) -> Tensor:
    """Mixed well in 32 bits, and never negative; plain sums and products, so that it can be part of a kernel."""
    z = numbers & WORD
    for _ in range(2):
        z = ((z ^ (z >> 16)) * ODD) & WORD
    return z ^ (z >> 16)


@dataclass(frozen=True)
class Random(NeedsLength):
    """Every block of queries sees `count` other blocks, none twice.

    Never one at most `near` blocks away from its own, nor one of the `first` or the `last` of the sequence. What remains is cut
    into as many parts as there are picks, and each pick is one of its part.
    """

    count: int
    seed: int = 0
    size: int = 64
    near: int = 0
    first: int = 0
    last: int = 0
    end: End = None
    key: int = field(default=-1, repr=False, compare=False)  # of the seed, once

    def __post_init__(self) -> None:
        if self.key < 0:
            object.__setattr__(self, "key", derive_seed(self.seed, "random blocks") & WORD)

    @property
    def block_size(self) -> int:  # type: ignore[override]
        return self.size

    def sees(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        key = j // self.size
        return reduce(torch.logical_or, (key == pick for pick in self.picks(b, i // self.size)))

    def between(self, b: Tensor, queries: Span, keys: Span) -> Between:
        """Exact where both spans lie in one block each."""
        rows, columns = queries.in_blocks(self.size), keys.in_blocks(self.size)
        seen = [self._reaches(b, torch.minimum(rows.first + step, rows.last), columns) for step in range(rows.most)]
        every = reduce(torch.logical_and, seen) & (columns.first == columns.last)
        return Between(reduce(torch.logical_or, seen), every)

    def _reaches(self, b: Tensor, block: Tensor, keys: Span) -> Tensor:
        return reduce(torch.logical_or, ((pick >= keys.first) & (pick <= keys.last) for pick in self.picks(b, block)))

    def picks(self, b: Tensor, block: Tensor) -> Iterator[Tensor]:
        """Return the numbers of the random blocks that a block sees; -1 where there are too few to choose from."""
        block = block.long()
        before, after, candidates = self._candidates(b, block)
        for n in range(self.count):
            low, high = candidates * n // self.count, candidates * (n + 1) // self.count
            place = low + hashed(hashed(block + self.key) + n) % (high - low).clamp(min=1)
            pick = torch.where(place < before, place + self.first, place - before + after)
            yield pick.masked_fill(high <= low, -1)

    def _candidates(self, b: Tensor, block: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return how many candidates lie before the block's neighbours, the first one behind them, and their total."""
        before = block - self.near - self.first
        after = (block + self.near + 1).clamp(min=self.first)
        if self.end is None:
            return before.clamp(min=0), after, before.clamp(min=0)
        behind = (self.ends(b) - 1) // self.size + 1 - self.last
        room = block * 0 + behind - self.first  # as a tensor, wherever the end comes from
        before = torch.minimum(before, room).clamp(min=0)
        return before, after, before + (behind - after).clamp(min=0)

    def __str__(self) -> str:
        return f"random({self.count}, {self.seed}, {self.size}, {self.near}, {self.first}, {self.last})"


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
