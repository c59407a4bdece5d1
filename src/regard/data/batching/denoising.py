"""Batches for denoising: passages of running text, noised, as pairs of what is read and what is written.

Rows are numbered on through the epochs, as `Passages` does, and a row's number alone decides its noise. What is read ends with
<eos>, and so does what is written.

Dims: N passages, T tokens of all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from regard.data.batching.masked import Passages
from regard.data.batching.noise import Noise, Noised
from regard.data.batching.pairs import Batch, EncodedPairs, PackedBatch, Ragged, make_batch, pack_batch
from regard.text.specials import OWN_MARKS, PairMarks


@dataclass(frozen=True)
class NoisedPassages:
    """Source of batches of noised passages for the loader."""

    passages: Passages  # with a mark on either side, which noise does not see
    tokens: int  # of a batch, on its longer side, padding counted
    noise: Noise
    packed: bool = False
    marks: PairMarks = OWN_MARKS  # around what is read and what is written
    fixed_shapes = False

    def plan(self, epoch: int) -> list[np.ndarray]:
        return self.passages.plan(epoch, self.tokens)

    def count(self, rows: np.ndarray) -> int:
        """Return the number of target tokens, ends counted."""
        lengths_N = self.passages.lengths(rows)
        ends = len(rows) * self.marks.around_target
        return ends + sum(self.noise.target_length(int(length), int(row)) for length, row in zip(lengths_N, rows))

    def pairs(self, rows: np.ndarray) -> Iterator[Noised]:
        """Yield the passages of these numbers, noised."""
        laid = self.passages.take(rows)
        ends_N = np.cumsum(laid.lengths_N)
        for row, start, end in zip(rows, ends_N - laid.lengths_N, ends_N):
            yield self.noise(laid.ids_T[start + 1 : end - 1], int(row))

    def batch(self, rows: np.ndarray, epoch: int) -> Batch | PackedBatch:
        pairs = list(self.pairs(rows))
        sources, targets = ([ids.tolist() for ids in side] for side in zip(*pairs))
        data = EncodedPairs(Ragged(sources), Ragged(targets), marks=self.marks)
        return (pack_batch if self.packed else make_batch)(data, np.arange(len(rows)))

    def in_order(self) -> Iterator[Batch | PackedBatch]:
        """Yield every passage of the first epoch, always with the same noise, for scoring."""
        return (self.batch(rows, 0) for rows in self.plan(0))
