"""How well numbers are predicted: Pearson's and Spearman's correlation with the true ones, and how far off they are.

Pearson asks whether the numbers lie on a line, whichever; Spearman, who put ranks in their stead, only whether their order is
right. Equal numbers share the mean of their ranks. A constant answer correlates with nothing: 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class SimilarityScores:
    texts: int
    pearson: float
    spearman: float
    off: float  # by so much, on average (mean absolute error)
    constant: float  # the same for always saying the mean of the true ones

    @classmethod
    def of(cls, true: np.ndarray, said: np.ndarray) -> SimilarityScores:
        off, constant = float(np.abs(said - true).mean()), float(np.abs(true - true.mean()).mean())
        return cls(len(true), correlation(true, said), correlation(ranks(true), ranks(said)), off, constant)

    def lines(self) -> list[str]:
        """For the terminal."""
        return [
            f"Pearson    {self.pearson:7.4f}  {self.texts:,} texts",
            f"Spearman   {self.spearman:7.4f}",
            f"off by     {self.off:7.4f}  on average; one answer for all: {self.constant:.4f}",
        ]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {name: getattr(self, name) for name in ("texts", "pearson", "spearman", "off", "constant")}


def correlation(one: np.ndarray, other: np.ndarray) -> float:
    """Pearson's r."""
    if np.ptp(one) == 0 or np.ptp(other) == 0:
        return 0.0
    one, other = one - one.mean(), other - other.mean()
    return float(np.clip(one @ other / np.sqrt((one @ one) * (other @ other)), -1.0, 1.0))


def ranks(values: np.ndarray) -> np.ndarray:
    """From 1 up; equal values share the mean of theirs."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[place]
