"""The trigram model of the textbooks: shares of three, two and one word and of chance, mixed by weights that suit unseen text.

Jelinek & Mercer 1980: p(w | u v) = a c(u v w) / c(u v) + b c(v w) / c(v) + d c(w) / N + e / V. The weights are those that make a
held-out twentieth of the training text likeliest, found by expectation maximisation; then everything is counted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from regard.evaluate.kneser_ney import ORDER, find, trigrams

HELD_OUT = 0.05
ROUNDS = 50


@dataclass(frozen=True)
class Counts:
    """N-grams of one to three words as numbers, ascending, and how often each was seen."""

    grams: list[np.ndarray]
    counts: list[np.ndarray]
    vocabulary: int

    @classmethod
    def of(cls, grams: np.ndarray, vocabulary: int) -> Counts:
        found = [np.unique(grams % vocabulary**order, return_counts=True) for order in range(1, ORDER + 1)]
        return cls([grams for grams, _ in found], [counts for _, counts in found], vocabulary)

    def shares(self, grams: np.ndarray) -> np.ndarray:
        """p of each trigram's last word by chance, and by each order's counts; after unseen words, that of the order below."""
        parts = [np.full(len(grams), 1 / self.vocabulary)]
        for order in range(1, ORDER + 1):
            wanted = grams % self.vocabulary**order
            at, seen = find(self.grams[order - 1], wanted)
            contexts, first = np.unique(self.grams[order - 1] // self.vocabulary, return_index=True)
            totals = np.add.reduceat(self.counts[order - 1], first)
            context, known = find(contexts, wanted // self.vocabulary)
            share = np.where(seen, self.counts[order - 1][at] / totals[context], 0.0)
            parts.append(np.where(known, share, parts[-1]))
        return np.stack(parts)


@dataclass(frozen=True)
class Interpolated:
    counts: Counts
    weights: np.ndarray
    start: int

    @classmethod
    def train(cls, ids: np.ndarray, vocabulary: int, start: int) -> Interpolated:
        grams = trigrams(ids, vocabulary, start)
        cut = max(1, round(len(grams) * (1 - HELD_OUT)))
        shares = Counts.of(grams[:cut], vocabulary).shares(grams[cut:] if cut < len(grams) else grams)
        weights = np.full(ORDER + 1, 1 / (ORDER + 1))
        for _ in range(ROUNDS):
            owed = weights[:, None] * shares
            weights = (owed / owed.sum(0)).mean(1)
        return cls(Counts.of(grams, vocabulary), weights, start)

    def probabilities(self, grams: np.ndarray) -> np.ndarray:
        found: np.ndarray = self.weights @ self.counts.shares(grams)
        return found

    def log_probabilities(self, ids: np.ndarray) -> np.ndarray:
        """Natural logarithms, one for each token of a text."""
        return np.log(self.probabilities(trigrams(ids, self.counts.vocabulary, self.start)))
