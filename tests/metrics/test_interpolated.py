"""Interpolated trigrams against counting by hand."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.metrics.lm_baselines import Interpolated

VOCABULARY, START = 5, 0
texts = st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=60)


def grams(words: list[int], size: int) -> Counter:
    padded = [START, START, *words]
    return Counter(tuple(padded[n - size + 1 : n + 1]) for n in range(2, len(padded)))


def by_hand(model: Interpolated, training: list[int], u: int, v: int, w: int) -> float:
    parts, counts = [1 / VOCABULARY], [grams(training, size) for size in (1, 2, 3)]
    for size, table in enumerate(counts, 1):
        gram = (u, v, w)[3 - size :]
        total = sum(count for other, count in table.items() if other[:-1] == gram[:-1])
        parts.append(table[gram] / total if total else parts[-1])
    return float(model.weights @ np.array(parts))


@given(texts, st.integers(0, VOCABULARY - 1), st.integers(0, VOCABULARY - 1))
@settings(max_examples=60)
def test_probabilities_are_those_counted_by_hand(training: list[int], u: int, v: int) -> None:
    model = Interpolated.train(np.array(training), VOCABULARY, START)
    found = model.probabilities(np.array([(u * VOCABULARY + v) * VOCABULARY + w for w in range(VOCABULARY)]))
    assert found == pytest.approx([by_hand(model, training, u, v, w) for w in range(VOCABULARY)])
    assert found.sum() == pytest.approx(1)
    assert model.weights.sum() == pytest.approx(1)


def test_weights_follow_what_helps() -> None:
    """Text whose next word is decided by the last two leaves nothing to chance."""
    training = np.tile([0, 1, 2, 0, 3, 4], 200)
    assert Interpolated.train(training, VOCABULARY, START).weights[2:].sum() > 0.9
    noise = np.random.default_rng(1).integers(0, VOCABULARY, 5000)
    assert Interpolated.train(noise, VOCABULARY, START).weights[3] < 0.3
