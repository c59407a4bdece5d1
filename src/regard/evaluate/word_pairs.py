"""Whether words that people find alike have vectors that are: how cosines and ratings correlate (WordSim-353 and others)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.data.word_tests import Pairs
from regard.evaluate.analogies import folded
from regard.evaluate.similarity import correlation, ranks
from regard.evaluate.word_space import WordSpace


@dataclass(frozen=True)
class PairScores:
    name: str
    spearman: float
    pearson: float
    known: int  # pairs of which both words have vectors: only these are scored
    asked: int

    def lines(self) -> list[str]:
        return [
            f"similarity, {self.name}: {self.known:,} of {self.asked:,} pairs in vocabulary",
            f"Spearman       {100 * self.spearman:6.2f}",
            f"Pearson        {100 * self.pearson:6.2f}",
        ]

    def as_dict(self) -> dict[str, Any]:
        return {"similarity": self.name, **{key: getattr(self, key) for key in ("spearman", "pearson", "known", "asked")}}


def score_pairs(space: WordSpace, test: Pairs) -> PairScores:
    """Of no pairs, or one, nothing can be said: 0."""
    numbers = folded(space.vectors.words)
    known = [n for n, pair in enumerate(test.pairs) if all(word.lower() in numbers for word in pair)]
    if len(known) < 2:
        return PairScores(test.name, 0.0, 0.0, len(known), len(test.pairs))
    one, other = (space.unit_VD[[numbers[test.pairs[n][side].lower()] for n in known]] for side in (0, 1))
    said, true = (one * other).sum(1).astype(np.float64), np.array([test.ratings[n] for n in known])
    return PairScores(test.name, correlation(ranks(true), ranks(said)), correlation(true, said), len(known), len(test.pairs))
