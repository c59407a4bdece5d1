"""Whole texts as passages: what is to be filled in where texts are not cut, such as those that a classifier will learn from.

To `masks` they look like the passages of running text (see `passages`): rows are numbered on through the epochs, so that a row's
number alone says what is masked in it. Dims: N texts, T tokens of all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from regard.data.batches import Ragged, plan_by_length
from regard.data.passages import Laid

MARKS = 2  # one before each text and one behind it


@dataclass(frozen=True, eq=False)
class WholeTexts:
    ids: Ragged  # marks included
    seed: int
    around = MARKS

    @property
    def window(self) -> int:
        """No text has more tokens."""
        return int(self.ids.lengths.max())

    def __len__(self) -> int:
        return len(self.ids)

    def lengths(self, rows: np.ndarray) -> np.ndarray:
        """Without marks."""
        return self.ids.lengths[rows % len(self)] - MARKS

    def plan(self, epoch: int, tokens: int) -> list[np.ndarray]:
        """Batches of at most so many tokens, of like length; as many in every epoch."""
        return [epoch * len(self) + rows for rows in plan_by_length(self.ids.lengths, tokens, self.seed, epoch)]

    def take(self, rows: np.ndarray) -> Laid:
        flat, lengths_N = self.ids.take(rows % len(self))
        places_T = np.arange(len(flat)) - np.repeat(np.cumsum(lengths_N) - lengths_N, lengths_N)
        return Laid(flat.astype(np.int64), lengths_N, places_T, None, None)
