"""Neighbours and analogies are those of loops over all words, and scores those of a count by hand."""

from __future__ import annotations

from itertools import permutations
from math import dist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.data.sources.word_vectors import Pairs, Questions, WordVectors
from regard.metrics.correlation import score_pairs
from regard.metrics.word_analogies import Sum, WordSpace, crowding, score_analogies, typed_sum

WORDS = tuple("abcdefghij")


def space_of(seed: int, words: tuple[str, ...] = WORDS) -> WordSpace:
    return WordSpace(WordVectors(words, np.random.default_rng(seed).normal(size=(len(words), 4)).astype(np.float32)))


def cosine(x: np.ndarray, y: np.ndarray) -> float:
    return float(x @ y / np.sqrt((x @ x) * (y @ y)))


def best(space: WordSpace, asked: Sum, by: str, analogy: str, exclude: bool) -> dict[str, float]:
    """Every word's score, one after the other."""
    v = {word: space.vectors[word].astype(np.float64) for word in WORDS}
    u = {word: x / np.linalg.norm(x) for word, x in v.items()}
    scores = {}
    for word in WORDS:
        if exclude and word in (*asked.plus, *asked.minus):
            continue
        if by == "euclid":
            point = sum(v[w] for w in asked.plus) - sum((v[w] for w in asked.minus), np.zeros(4))
            scores[word] = dist(point, v[word])
        elif analogy == "add":
            scores[word] = cosine(sum(u[w] for w in asked.plus) - sum((u[w] for w in asked.minus), np.zeros(4)), v[word])
        else:
            over = np.prod([(1 + cosine(v[word], v[w])) / 2 for w in asked.plus])
            scores[word] = float(over / (np.prod([(1 + cosine(v[word], v[w])) / 2 for w in asked.minus]) + 0.001))
    return dict(sorted(scores.items(), key=lambda item: item[1] if by == "euclid" else -item[1]))


@settings(max_examples=40)
@given(
    st.integers(0, 99),
    st.lists(st.sampled_from(WORDS), min_size=2, max_size=4, unique=True),
    st.sampled_from([("cosine", "add"), ("cosine", "mul"), ("euclid", "add")]),
    st.booleans(),
)
def test_nearest_are_those_of_a_loop(seed: int, words: list[str], how: tuple[str, str], exclude: bool) -> None:
    space, asked = space_of(seed), Sum(tuple(words[1:]), (words[0],))
    found = space.nearest(asked, 5, by=how[0], analogy=how[1], exclude=exclude)  # type: ignore[arg-type]
    expected = best(space, asked, how[0], how[1], exclude)
    assert [near.word for near in found] == list(expected)[:5]
    assert [near.score for near in found] == pytest.approx(list(expected.values())[:5], abs=1e-4, rel=1e-4)


def test_of_one_word_all_ways_are_the_cosine() -> None:
    space = space_of(1)
    for analogy in ("add", "mul"):
        (first, *_) = space.nearest(Sum(("c",), ()), 3, analogy=analogy)  # type: ignore[arg-type]
        others = {word: cosine(space.vectors["c"], space.vectors[word]) for word in WORDS if word != "c"}
        assert first.word == max(others, key=others.__getitem__)
    assert space.nearest(Sum(("c",), ()), 1, exclude=False)[0].word == "c"
    assert {near.word for near in space.nearest(Sum(("c",), ()), 99, restrict=4)} == {"a", "b", "d"}


def test_sums_are_read_as_typed() -> None:
    assert typed_sum("king - man + woman") == Sum(("king", "woman"), ("man",))
    assert typed_sum("  vice-president ") == Sum(("vice-president",), ())
    assert typed_sum("- man + king") == Sum(("king",), ("man",))
    for wrong in ("king man", "king -", "+", "king + man woman"):
        with pytest.raises(UserError):
            typed_sum(wrong)


def test_an_unknown_word_is_told_with_the_nearest() -> None:
    space = space_of(1, ("king", "queen"))
    with pytest.raises(UserError, match=r"'kign' has no vector here.*'king'"):
        space.nearest(Sum(("kign",), ()), 1)


@pytest.mark.parametrize("analogy", ["add", "mul"])
@pytest.mark.parametrize("exclude", [True, False])
def test_analogies_are_those_asked_one_by_one(analogy: str, exclude: bool) -> None:
    space = space_of(3)
    asked = [(a, b, c, d) for a, b, c, d in permutations(WORDS[:6], 4)]
    questions = Questions("q", {"one": asked[:100], "two": [*asked[100:], ("a", "b", "c", "nowhere")]})
    scores = score_analogies(space, questions, analogy=analogy, exclude=exclude, restrict=5)  # type: ignore[arg-type]
    for words, found in ((10, scores.sections), (5, scores.restricted)):
        for name, questions_ in questions.sections.items():
            known = [q for q in questions_ if all(word in WORDS[:words] for word in q)]
            ways = {"analogy": analogy, "exclude": exclude, "restrict": words}
            right = sum(space.nearest(Sum((b, c), (a,)), 1, **ways)[0].word == d for a, b, c, d in known)  # type: ignore[arg-type]
            assert found[name] == (right, len(known), len(questions_))
    assert scores.total.asked == 361
    assert scores.total.of_all == scores.total.right / 361


def test_case_is_not_looked_at_and_the_first_of_two_spellings_counts() -> None:
    numbers = np.eye(4, dtype=np.float32)
    space = WordSpace(WordVectors(("paris", "Rome", "Paris", "rome"), numbers))
    scores = score_pairs(space, Pairs("p", [("PARIS", "ROME"), ("Paris", "paris"), ("x", "paris")], [1.0, 9.0, 5.0]))
    assert (scores.known, scores.asked) == (2, 3)
    assert scores.spearman == 1.0


def test_spearman_is_the_formula_of_ranks() -> None:
    space, chance = space_of(4), np.random.default_rng(1)
    pairs = [(WORDS[n], WORDS[n + 1]) for n in range(9)]
    ratings = chance.permutation(9).astype(float).tolist()
    said = [cosine(space.vectors[a], space.vectors[b]) for a, b in pairs]
    d = np.argsort(np.argsort(said)) - np.argsort(np.argsort(ratings))
    assert score_pairs(space, Pairs("p", pairs, ratings)).spearman == pytest.approx(1 - 6 * (d**2).sum() / (9 * 80))


def test_crowding_is_the_mean_of_the_nearest_words_cosines() -> None:
    space = space_of(3)
    by_hand = [
        sorted((float(space.unit_VD[n] @ space.unit_VD[m]) for m in range(10) if m != n), reverse=True)[:3] for n in range(10)
    ]
    assert crowding(space.vectors.vectors_VD, near=3) == pytest.approx(float(np.mean(by_hand)))


def test_a_common_drift_crowds() -> None:
    vectors = np.random.default_rng(1).normal(size=(300, 20)).astype(np.float32)
    assert crowding(vectors) < 0.7 < 0.99 < crowding(vectors + 50)
