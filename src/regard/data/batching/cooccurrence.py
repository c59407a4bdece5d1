"""How often words stand near each other: the counts that GloVe is learned from, and batches of them.

Pennington et al. 2014, section 3: X_ij is how often word j stands in the window of word i. A neighbour d words away counts 1/d
(section 4.2), unless all are to count alike; symmetric windows look both ways, others only back. Only what is not zero is kept.

Dims: E entries of the matrix that are not zero.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.core.errors import UserError
from regard.core.rng import generator
from regard.data.batching.skipgram import WordText

STRETCH = 2**20  # words of text that are counted together


class Counts(NamedTuple):
    """Entries by rows, then columns."""

    rows_E: np.ndarray
    columns_E: np.ndarray
    counts_E: np.ndarray  # float32


class Entries(NamedTuple):
    rows_E: Tensor
    columns_E: Tensor
    counts_E: Tensor


def cooccurrences(text: WordText, window: int, *, symmetric: bool = True, by_distance: bool = True) -> Counts:
    size, sentence = len(text.words), np.zeros(len(text.ids), np.int32)
    sentence[text.starts[text.starts > 0]] = 1
    sentence = np.cumsum(sentence, dtype=np.int32)
    keys, counts = np.zeros(0, np.int64), np.zeros(0)
    for begin in range(0, len(text.ids), STRETCH):
        stretch = slice(begin, begin + STRETCH + window)
        found = [
            (pairs, number / distance if by_distance else number.astype(float))
            for distance in range(1, window + 1)
            for pairs, number in [_at(text.ids[stretch], sentence[stretch], distance, size)]
        ]
        keys, counts = _summed([keys, *(pairs for pairs, _ in found)], [counts, *(number for _, number in found)])
    if symmetric:
        mirrored = keys % size * size + keys // size
        keys, counts = _summed([keys, mirrored], [counts, counts])
    if not len(keys):
        raise UserError("no word of the text has another in its window; give text with more than one word a sentence.")
    return Counts(keys // size, keys % size, counts.astype(np.float32))


def _at(ids: np.ndarray, sentence: np.ndarray, distance: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Every word of a stretch, with the one so far before it in its sentence: each pair once, and how often."""
    later, earlier = ids[distance : distance + STRETCH].astype(np.int64), ids[:-distance][:STRETCH]
    together = (sentence[distance:] == sentence[:-distance])[:STRETCH]
    return np.unique((later * size + earlier)[together], return_counts=True)


def _summed(keys: list[np.ndarray], counts: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Equal keys once, sorted, their counts added."""
    found, place = np.unique(np.concatenate(keys), return_inverse=True)
    return found, np.bincount(place, np.concatenate(counts), len(found))


class EntrySource:
    """Batches of entries, in another order every epoch, by the number of their step."""

    def __init__(self, counts: Counts, *, batch: int, seed: int, part: int | None = None) -> None:
        self.counts, self.batch, self.seed, self.part = counts, batch, seed, part or batch
        self._order = (-1, np.zeros(0, np.int64))

    @property
    def per_epoch(self) -> int:
        return -(-len(self.counts.counts_E) // self.batch)

    def count(self, step: int) -> int:
        """Entries that the steps before this one have been through."""
        epoch, batch = divmod(step, self.per_epoch)
        return epoch * len(self.counts.counts_E) + batch * self.batch

    def parts(self, step: int) -> list[Entries]:
        epoch, batch = divmod(step, self.per_epoch)
        if self._order[0] != epoch:
            self._order = epoch, generator(self.seed, "entries", epoch).permutation(len(self.counts.counts_E))
        rows = self._order[1][batch * self.batch : (batch + 1) * self.batch]
        pieces = [rows[begin : begin + self.part] for begin in range(0, len(rows), self.part)]
        return [Entries(*(torch.from_numpy(each[piece]) for each in self.counts)) for piece in pieces]
