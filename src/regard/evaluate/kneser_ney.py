"""A trigram model with interpolated, modified Kneser-Ney smoothing: the best that counting can do, which learning must beat.

Chen & Goodman 1998, section 3. A word's count is lowered by a discount, D1, D2 or D3+ as it was seen once, twice or more, and
what that frees goes to the order below:

    p(w | u v) = (c(u v w) - D) / c(u v) + freed(u v) p(w | v)

The lower orders count not how often v w was seen but after how many different words: "Francisco" is frequent, but only after
"San". The lowest falls back on a uniform choice, so every word has a probability and all of them sum to 1.

N-grams are numbers in base V, sorted; contexts are therefore runs of neighbours, and everything below is a few array operations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from regard.errors import UserError

ORDER = 3
FEW = np.array([0.5, 1.0, 1.5])  # discounts where counts are too few to tell them


@dataclass(frozen=True)
class Level:
    """One order: its n-grams as numbers, ascending, with counts; and the same for their contexts, all words but the last."""

    grams: np.ndarray
    left: np.ndarray  # of each count, once discounted
    contexts: np.ndarray
    totals: np.ndarray
    freed: np.ndarray

    @classmethod
    def of(cls, grams: np.ndarray, counts: np.ndarray, vocabulary: int) -> Level:
        lowered = discounts(counts)[np.minimum(counts, 3) - 1]
        contexts, first = np.unique(grams // vocabulary, return_index=True)
        return cls(grams, counts - lowered, contexts, np.add.reduceat(counts, first), np.add.reduceat(lowered, first))

    def given(self, grams: np.ndarray, below: np.ndarray, vocabulary: int) -> np.ndarray:
        """p of each n-gram's last word, where `below` is what the order below says of it; that alone after an unseen context."""
        gram, seen_gram = find(self.grams, grams)
        context, seen = find(self.contexts, grams // vocabulary)
        p = (np.where(seen_gram, self.left[gram], 0.0) + self.freed[context] * below) / self.totals[context]
        return np.where(seen, p, below)


@dataclass(frozen=True)
class Trigrams:
    levels: tuple[Level, ...]  # of one word, two and three
    vocabulary: int
    start: int  # stands twice before every text

    @classmethod
    def train(cls, ids: np.ndarray, vocabulary: int, start: int) -> Trigrams:
        if not len(ids):
            raise UserError("a trigram model needs text to count; the training text has no tokens.")
        if vocabulary**ORDER >= 2**63:
            raise UserError(f"trigrams of {vocabulary:,} words cannot be numbered in 64 bits; give at most {2**21 - 1:,} words.")
        grams, counts = np.unique(trigrams(ids, vocabulary, start), return_counts=True)
        levels = [Level.of(grams, counts, vocabulary)]
        for order in range(ORDER - 1, 0, -1):
            grams, counts = np.unique(grams % vocabulary**order, return_counts=True)  # how many words it follows
            levels.append(Level.of(grams, counts, vocabulary))
        return cls(tuple(reversed(levels)), vocabulary, start)

    def log_probabilities(self, ids: np.ndarray) -> np.ndarray:
        """Natural logarithms, one for each token of a text."""
        return np.log(self.probabilities(trigrams(ids, self.vocabulary, self.start)))

    def probabilities(self, grams: np.ndarray) -> np.ndarray:
        """p(w | u v) for trigrams as numbers, (u V + v) V + w."""
        p = np.full(len(grams), 1 / self.vocabulary)
        for order, level in enumerate(self.levels, 1):
            p = level.given(grams % self.vocabulary**order, p, self.vocabulary)
        return p


def discounts(counts: np.ndarray) -> np.ndarray:
    """D1, D2, D3+ from how many n-grams were seen once to four times (Chen & Goodman 1998, equation 26)."""
    n1, n2, n3, n4 = (int((counts == times).sum()) for times in (1, 2, 3, 4))
    if not (n1 and n2 and n3 and n4):
        return FEW
    share = n1 / (n1 + 2 * n2)
    found = np.array([1 - 2 * share * n2 / n1, 2 - 3 * share * n3 / n2, 3 - 4 * share * n4 / n3])
    return found if (found > 0).all() else FEW


def trigrams(ids: np.ndarray, vocabulary: int, start: int) -> np.ndarray:
    ids = np.concatenate([[start, start], np.asarray(ids, dtype=np.int64)]).astype(np.int64)
    if ids.min() < 0 or ids.max() >= vocabulary:
        raise UserError(f"token {ids.max() if ids.max() >= vocabulary else ids.min()} is not among the {vocabulary:,} words.")
    return (ids[:-2] * vocabulary + ids[1:-1]) * vocabulary + ids[2:]


def find(among: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where each is in a sorted array, and whether it is there at all."""
    at = np.minimum(np.searchsorted(among, wanted), len(among) - 1)
    return at, among[at] == wanted
