"""Baselines of language models: compressors and n-gram models, in bits per byte of the test text.

A compressor is a language model too: it spends few bits on what it expects. Each is tried without and with the training text.
gzip (level 9) looks back 32 KiB at most, so it is primed with the last 32 KiB of the training text. LZMA looks back 64 MiB, so
it compresses training and test text as one, and what training alone takes is subtracted. Headers and checksums, some 10 to 70
bytes, are counted where nothing is subtracted.

Interpolated trigrams: a mixture of trigram, bigram and unigram frequencies and a uniform distribution. Jelinek & Mercer 1980:
p(w | u v) = a c(u v w) / c(u v) + b c(v w) / c(v) + d c(w) / N + e / V. The weights are those that make a held-out twentieth of
the training text likeliest, found by expectation maximisation; then everything is counted.

Trigrams with interpolated, modified Kneser-Ney smoothing: the strongest n-gram baseline. Chen & Goodman 1998, section 3. A
word's count is lowered by a discount, D1, D2 or D3+ as it was seen once, twice or more, and the freed probability goes to the
order below:

p(w | u v) = (c(u v w) - D) / c(u v) + freed(u v) p(w | v)

The lower orders count not how often v w was seen but after how many different words: "Francisco" is frequent, but only after
"San". The lowest falls back on a uniform choice, so every word has a probability and all of them sum to 1.

N-grams are numbers in base V, sorted; contexts are therefore runs of neighbours, and everything below is a few array
operations.
"""

from __future__ import annotations

import gzip
import lzma
import zlib
from dataclasses import dataclass

import numpy as np

from regard.core.errors import UserError
from regard.metrics.likelihood import Likelihood

GZIP_REACH = 2**15
LZMA_PRESET = 9 | lzma.PRESET_EXTREME


def gzip_bits_per_byte(test: bytes, training: bytes = b"") -> float:
    """Return bits per byte of gzip -9; with training text, its last 32 KiB are the dictionary."""
    if not training:
        return _bits_per_byte(len(gzip.compress(test, 9, mtime=0)), test)
    deflate = zlib.compressobj(9, zdict=training[-GZIP_REACH:])
    return _bits_per_byte(len(deflate.compress(test)) + len(deflate.flush()), test)


def lzma_bits_per_byte(test: bytes, training: bytes = b"") -> float:
    """Return bits per byte of xz -9e; with training text, the increase in size when the test text follows it."""
    alone = len(lzma.compress(training, preset=LZMA_PRESET)) if training else 0
    return _bits_per_byte(len(lzma.compress(training + test, preset=LZMA_PRESET)) - alone, test)


def trigram_likelihood(
    kind: type[Trigrams] | type[Interpolated],
    training_ids: np.ndarray,
    test_ids: np.ndarray,
    test: str,
    vocabulary: int,
    start: int,
) -> Likelihood:
    """Return the likelihood of a trigram model over the same tokens and training text as the model it is compared with."""
    scores = kind.train(training_ids, vocabulary, start).log_probabilities(test_ids)
    return Likelihood.of([scores], [test])


def baselines(
    training: str, test: str, training_ids: np.ndarray, test_ids: np.ndarray, vocabulary: int, start: int
) -> dict[str, float]:
    """Return bits per byte of the test text for each baseline; lower is better."""
    known, new, ids = training.encode(), test.encode(), (training_ids, test_ids, test, vocabulary, start)
    return {
        "gzip": gzip_bits_per_byte(new),
        "gzip after the training text's last 32 KiB": gzip_bits_per_byte(new, known),
        "LZMA": lzma_bits_per_byte(new),
        "LZMA after the training text": lzma_bits_per_byte(new, known),
        "trigrams, interpolated": trigram_likelihood(Interpolated, *ids).bits_per_byte,
        "trigrams, Kneser-Ney": trigram_likelihood(Trigrams, *ids).bits_per_byte,
    }


def _bits_per_byte(compressed: int, test: bytes) -> float:
    if not test:
        raise UserError("there is no text to compress: the test text is empty; give at least one byte.")
    return 8 * compressed / len(test)


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
        """Return p of the last word of each trigram, uniform and by each order; after an unseen context, by the order below."""
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
    """An interpolated trigram model."""

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
        """Return the natural logarithm of p for each token of a text."""
        return np.log(self.probabilities(trigrams(ids, self.counts.vocabulary, self.start)))


ORDER = 3
FEW = np.array([0.5, 1.0, 1.5])  # default discounts where counts are too few to estimate them


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
        """Return p of the last word of each n-gram; `below` is its p by the order below, used alone after an unseen context."""
        gram, seen_gram = find(self.grams, grams)
        context, seen = find(self.contexts, grams // vocabulary)
        p = (np.where(seen_gram, self.left[gram], 0.0) + self.freed[context] * below) / self.totals[context]
        return np.where(seen, p, below)


@dataclass(frozen=True)
class Trigrams:
    """A trigram model with modified Kneser-Ney smoothing."""

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
        """Return the natural logarithm of p for each token of a text."""
        return np.log(self.probabilities(trigrams(ids, self.vocabulary, self.start)))

    def probabilities(self, grams: np.ndarray) -> np.ndarray:
        """Return p(w | u v) for trigrams as numbers, (u V + v) V + w."""
        p = np.full(len(grams), 1 / self.vocabulary)
        for order, level in enumerate(self.levels, 1):
            p = level.given(grams % self.vocabulary**order, p, self.vocabulary)
        return p


def discounts(counts: np.ndarray) -> np.ndarray:
    """Return D1, D2, D3+ from the numbers of n-grams seen one to four times (Chen & Goodman 1998, equation 26)."""
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
    """Return the index of each value in a sorted array, and whether it is there."""
    at = np.minimum(np.searchsorted(among, wanted), len(among) - 1)
    return at, among[at] == wanted
