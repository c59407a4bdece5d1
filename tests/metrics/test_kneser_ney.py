"""Kneser-Ney against the formulas of Chen & Goodman 1998, summed word by word over plain dictionaries."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.metrics.lm_baselines import Trigrams, discounts
from tests.work import calls

VOCABULARY, START = 7, 0
TEXTS = st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=60)


class ByHand:
    """The same model as the paper writes it: no arrays, no sorting, every sum over all words."""

    def __init__(self, ids: list[int]) -> None:
        padded = [START, START, *ids]
        self.counts = {3: Counter(zip(padded, padded[1:], padded[2:]))}
        for order in (2, 1):
            self.counts[order] = Counter(gram[1:] for gram in self.counts[order + 1])

    def discount(self, order: int, count: int) -> float:
        n = Counter(self.counts[order].values())
        if not all(n[k] for k in (1, 2, 3, 4)):
            found = [0.5, 1.0, 1.5]
        else:
            y = n[1] / (n[1] + 2 * n[2])
            found = [k - (k + 1) * y * n[k + 1] / n[k] for k in (1, 2, 3)]
            found = found if min(found) > 0 else [0.5, 1.0, 1.5]
        return 0.0 if count == 0 else found[min(count, 3) - 1]

    def p(self, word: int, context: tuple[int, ...]) -> float:
        order = len(context) + 1
        counts = [self.counts[order][(*context, w)] for w in range(VOCABULARY)]
        below = self.p(word, context[1:]) if context else 1 / VOCABULARY
        if not sum(counts):
            return below
        freed = sum(self.discount(order, count) for count in counts)
        return (counts[word] - self.discount(order, counts[word]) + freed * below) / sum(counts)


MANY = (np.random.default_rng(1).zipf(1.3, 250) % VOCABULARY).tolist()  # enough to estimate discounts of pairs and triples


@given(TEXTS, TEXTS)
@example(MANY, MANY[100:160])
@settings(max_examples=60)
def test_probabilities_are_those_of_the_formulas(training, test):
    found = np.exp(Trigrams.train(np.array(training), VOCABULARY, START).log_probabilities(np.array(test)))
    padded, by_hand = [START, START, *test], ByHand(training)
    expected = [by_hand.p(w, (u, v)) for u, v, w in zip(padded, padded[1:], padded[2:])]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@given(TEXTS)
@settings(max_examples=40)
def test_it_is_a_distribution_after_every_context(training):
    p = Trigrams.train(np.array(training), VOCABULARY, START).probabilities(np.arange(VOCABULARY**3))
    assert (p > 0).all()
    np.testing.assert_allclose(p.reshape(-1, VOCABULARY).sum(1), 1, rtol=1e-9)


def test_discounts_of_many_counts_are_estimated():
    """Zipf's law in words, so that all of n1..n4 are there; and each discount is between 0 and its count."""
    counts = np.unique(np.random.default_rng(0).zipf(1.5, 5000), return_counts=True)[1]
    found = discounts(counts)
    n = Counter(counts.tolist())
    y = n[1] / (n[1] + 2 * n[2])
    np.testing.assert_allclose(found, [k - (k + 1) * y * n[k + 1] / n[k] for k in (1, 2, 3)])
    assert ((found > 0) & (found < [1, 2, 3])).all()
    assert found.tolist() != [0.5, 1.0, 1.5]


def test_san_francisco():
    """A word seen often, but after one word only, is not expected elsewhere: what Kneser & Ney added."""
    san, francisco, see, other = 1, 2, 3, 4
    ids = np.array([san, francisco] * 20 + [see, other, see, 5, other, 6, other, see, other])
    trigrams = Trigrams.train(ids, VOCABULARY, START)
    after_new = np.array([(6 * VOCABULARY + 6) * VOCABULARY + word for word in (francisco, other)])  # an unseen context
    unexpected, expected = trigrams.probabilities(after_new)
    assert unexpected < expected


def test_a_long_text_is_counted_without_a_loop_over_its_tokens():
    def count(tokens: int) -> None:
        ids = np.minimum(np.random.default_rng(0).zipf(1.2, tokens), 50_257) - 1
        assert np.isfinite(Trigrams.train(ids, 50_257, START).log_probabilities(ids[: tokens // 10])).all()

    assert calls(lambda: count(200_000)) == calls(lambda: count(2_000)) < 1_000


@pytest.mark.parametrize(
    ("ids", "words", "told"), [([], 5, "no tokens"), ([5], 5, "token 5"), ([-1], 5, "token -1"), ([1], 2**21, "64 bits")]
)
def test_what_cannot_be_counted_is_told(ids, words, told):
    with pytest.raises(UserError, match=told):
        Trigrams.train(np.array(ids, dtype=np.int64), words, START)
