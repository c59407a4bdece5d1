"""Viterbi: the best of all rows of tags that are allowed, found by trying them all.

The best spans are those that trying every start and every end of every window finds.
"""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.tagset import Scheme, find_broken, transitions
from regard.decode.structured import NOWHERE, Part, Scored, best_path, best_spans

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


def tried(parts: list[Part], longest: int, solid: np.ndarray) -> dict[tuple[int, int], float]:
    """Every span there is, one by one."""
    found: dict[tuple[int, int], float] = {}
    for begin, scores, _ in parts:
        for i in range(len(scores)):
            for j in range(i, min(i + longest, len(scores))):
                if solid[begin + i] and solid[begin + j]:
                    span = (begin + i, begin + j)
                    found[span] = max(found.get(span, -math.inf), float(scores[i, 0] + scores[j, 1]))
    return found


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[Part], np.ndarray]:
    """A context in windows that overlap, each with scores of its own."""
    tokens, room = draw(st.integers(1, 14)), draw(st.integers(1, 8))
    step = draw(st.integers(1, room))
    begins = [0]
    while begins[-1] + room < tokens:
        begins.append(begins[-1] + step)
    noise = np.random.default_rng(draw(st.integers(0, 10**6)))
    parts = [Part(b, noise.normal(size=(min(room, tokens - b), 2)) * 3, float(noise.normal() * 3)) for b in begins]
    solid = noise.random(tokens) < draw(st.sampled_from([0.5, 1.0]))
    return parts, solid


@given(cases(), st.integers(1, 6), st.integers(1, 5), st.one_of(st.none(), st.floats(-5, 5)))
@settings(max_examples=150)
def test_equals_trying_them_all(case: tuple[list[Part], np.ndarray], longest: int, count: int, threshold: float | None) -> None:
    parts, solid = case
    every = tried(parts, longest, solid)
    if threshold is not None:
        every[NOWHERE, NOWHERE] = min(part.nothing for part in parts) - threshold
    expected = sorted(every.items(), key=lambda item: -item[1])[:count]
    found = best_spans(parts, longest, count, threshold, solid)
    assert [(one.first, one.last) for one in found] == [span for span, _ in expected]
    assert [one.score for one in found] == pytest.approx([score for _, score in expected])
    total = sum(math.exp(score) for score in every.values())
    assert [one.probability for one in found] == pytest.approx([math.exp(score) / total for _, score in expected])


def test_an_end_before_the_start_is_no_answer() -> None:
    scores = np.array([[0.0, 9.0], [0.0, 0.0], [9.0, 1.0]])
    (best,) = best_spans([Part(0, scores, 0.0)], 3, 1, None, np.ones(3, bool))
    assert (best.first, best.last, best.score) == (2, 2, 10.0)


def test_a_threshold_decides_when_nothing_is_said() -> None:
    parts, solid = [Part(0, np.array([[2.0, 2.0]]), 5.0)], np.ones(1, bool)
    assert best_spans(parts, 5, 1, 0.9, solid)[0].first == NOWHERE
    assert best_spans(parts, 5, 1, 1.1, solid)[0].first == 0
    assert best_spans(parts, 5, 1, None, solid)[0].first == 0
    assert [one.first for one in best_spans(parts, 5, 2, 0.0, solid)] == [NOWHERE, 0]


def test_one_window_that_sees_it_is_enough_for_an_answer() -> None:
    parts = [Part(0, np.array([[-9.0, -9.0]]), 8.0), Part(1, np.array([[2.0, 2.0]]), -3.0)]
    assert best_spans(parts, 5, 1, 0.0, np.ones(2, bool))[0][:2] == (1, 1)


def test_far_apart_scores_do_not_overflow() -> None:
    found = best_spans([Part(0, np.array([[900.0, 900.0], [-900.0, -900.0]]), 0.0)], 2, 3, None, np.ones(2, bool))
    assert found[0] == Scored(0, 0, 1800.0, 1.0)
    assert best_spans([Part(0, np.zeros((2, 2)), 0.0)], 2, 3, None, np.zeros(2, bool)) == []
