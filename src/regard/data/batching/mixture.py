"""Several sets of pairs, mixed by weights: each gives its share of the batches of every epoch.

An epoch has as many batches as all sets together. Of these each set gives `weight / all weights`, and takes them from its own
batches in turn, shuffled again for each of its passes; so a small set with a large weight is met several times in an epoch, and a
large one with a small weight takes several epochs. Which batches those are depends on the number of the epoch alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from regard.core.rng import generator
from regard.data.batching.pairs import Batch, EncodedPairs, PackedBatch, PairBatches


@dataclass(frozen=True)
class Mixture:
    """Source of batches of pairs for the loader; without weights, all sets are one."""

    sets: Sequence[EncodedPairs]
    weights: tuple[float, ...]
    tokens: int  # of a batch, on its longer side, padding counted
    seed: int
    packed: bool = False
    fixed_shapes = False

    @cached_property
    def whole(self) -> PairBatches:
        """Return all pairs as one source, one set behind the other."""
        first, *others = self.sets
        source, target = first.source, first.target
        for other in others:
            source, target = source + other.source, target + other.target
        return PairBatches(EncodedPairs(source, target, marks=first.marks), self.tokens, self.seed, self.packed)

    @cached_property
    def _sizes(self) -> list[int]:
        """Return the number of batches of a pass through each set, which is the same for every pass."""
        return [len(self._pass(n, 0)) for n in range(len(self.sets))]

    @cached_property
    def shares(self) -> list[int]:
        """Return the batches that each set gives to an epoch: in proportion to its weight, at least one."""
        whole, all_weights = sum(self._sizes), sum(self.weights)
        return [max(1, round(whole * weight / all_weights)) for weight in self.weights]

    def plan(self, epoch: int) -> list[np.ndarray]:
        if not self.weights:
            return self.whole.plan(epoch)
        firsts = np.cumsum([0, *(len(data) for data in self.sets)])
        found = [
            firsts[n] + self._batch(n, epoch * share + place) for n, share in enumerate(self.shares) for place in range(share)
        ]
        return [found[n] for n in generator(self.seed, "mixture", epoch).permutation(len(found))]

    def _batch(self, n: int, number: int) -> np.ndarray:
        """Return batch `number` of set `n`, counted through all of its passes."""
        passed, place = divmod(number, self._sizes[n])
        return self._pass(n, passed)[place]

    def _pass(self, n: int, number: int) -> list[np.ndarray]:
        """Plan a pass through a set. The last one of each set is kept: an epoch asks for its batches in turn."""
        if self._planned.get(n, (-1, []))[0] != number:
            self._planned[n] = (number, PairBatches(self.sets[n], self.tokens, self.seed).plan(number))
        return self._planned[n][1]

    @cached_property
    def _planned(self) -> dict[int, tuple[int, list[np.ndarray]]]:
        return {}

    def count(self, rows: np.ndarray) -> int:
        return self.whole.count(rows)

    def batch(self, rows: np.ndarray, epoch: int) -> Batch | PackedBatch:
        return self.whole.batch(rows, epoch)
