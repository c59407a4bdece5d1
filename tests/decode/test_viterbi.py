"""Viterbi: the best of all rows of tags that are allowed, found by trying them all."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.tagset import Scheme, find_broken, transitions
from regard.decode.viterbi import best_path

NAMES: dict[Scheme, list[str]] = {
    "iob1": ["O", "B-X", "I-X", "B-Y", "I-Y"],
    "iob2": ["O", "B-X", "I-X", "B-Y", "I-Y"],
    "iobes": ["O", "B-X", "I-X", "E-X", "S-X"],
}


@pytest.mark.parametrize("scheme", NAMES)
@given(seed=st.integers(0, 10_000), words=st.integers(1, 5))
@settings(max_examples=40)
def test_the_best_allowed_row_is_found(scheme: Scheme, seed: int, words: int) -> None:
    names = NAMES[scheme]
    scores = np.log(np.random.default_rng(seed).dirichlet(np.ones(len(names)) * 0.5, words) + 1e-9)
    rows = [row for row in product(range(len(names)), repeat=words) if not find_broken([names[n] for n in row], scheme)]
    best = max(rows, key=lambda row: scores[np.arange(words), row].sum())
    found = best_path(scores, transitions(names, scheme))
    assert scores[np.arange(words), found].sum() == pytest.approx(scores[np.arange(words), best].sum())
    assert not find_broken([names[n] for n in found], scheme)


def test_without_rules_each_word_has_its_best() -> None:
    scores = np.random.default_rng(0).normal(size=(40, 7))
    assert best_path(scores, np.ones((8, 8), bool)).tolist() == scores.argmax(1).tolist()
