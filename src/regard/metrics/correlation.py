"""Scores of predicted numbers: Pearson's and Spearman's correlation with the true ones, and the mean absolute error.

Pearson measures a linear relation, Spearman the correlation of ranks. Equal numbers share the mean of their ranks. A constant
prediction has correlation 0. The same for word vectors: the correlation of cosines and human ratings (WordSim-353 and others).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from regard.data.sources.word_vectors import Pairs
from regard.metrics.word_analogies import WordSpace, folded


@dataclass(frozen=True)
class SimilarityScores:
    """Scores of predicted numbers."""

    texts: int
    pearson: float
    spearman: float
    off: float  # mean absolute error
    constant: float  # mean absolute error of always predicting the mean

    @classmethod
    def of(cls, true: np.ndarray, said: np.ndarray) -> SimilarityScores:
        off, constant = float(np.abs(said - true).mean()), float(np.abs(true - true.mean()).mean())
        return cls(len(true), correlation(true, said), correlation(ranks(true), ranks(said)), off, constant)

    def lines(self) -> list[str]:
        """Return the lines that are printed."""
        return [
            f"Pearson    {self.pearson:7.4f}  {self.texts:,} texts",
            f"Spearman   {self.spearman:7.4f}",
            f"off by     {self.off:7.4f}  on average; one answer for all: {self.constant:.4f}",
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return the scores as JSON values."""
        return asdict(self)


def correlation(one: np.ndarray, other: np.ndarray) -> float:
    """Return Pearson's r."""
    if np.ptp(one) == 0 or np.ptp(other) == 0:
        return 0.0
    one, other = one - one.mean(), other - other.mean()
    return float(np.clip(one @ other / np.sqrt((one @ one) * (other @ other)), -1.0, 1.0))


def ranks(values: np.ndarray) -> np.ndarray:
    """Return ranks from 1; equal values share the mean of their ranks."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[place]


@dataclass(frozen=True)
class PairScores:
    """Correlations of cosines and ratings of word pairs."""

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
    """Return the scores of word vectors on rated pairs; 0 with fewer than two known pairs."""
    numbers = folded(space.vectors.words)
    known = [n for n, pair in enumerate(test.pairs) if all(word.lower() in numbers for word in pair)]
    if len(known) < 2:
        return PairScores(test.name, 0.0, 0.0, len(known), len(test.pairs))
    one, other = (space.unit_VD[[numbers[test.pairs[n][side].lower()] for n in known]] for side in (0, 1))
    said, true = (one * other).sum(1).astype(np.float64), np.array([test.ratings[n] for n in known])
    return PairScores(test.name, correlation(ranks(true), ranks(said)), correlation(true, said), len(known), len(test.pairs))
