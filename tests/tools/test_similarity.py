"""Built-in similarities: a number is what a reader of both opinions would count, and words in common are a poor guide."""

from __future__ import annotations

import re

import numpy as np

from tools.corpora.similarity import FOOD, SIZES, held_out, likenesses

GRADE = {"awful": 0, "terrible": 0, "bad": 1, "poor": 1, "fair": 2, "average": 2}
GRADE |= {"good": 3, "nice": 3, "superb": 4, "excellent": 4}


def clauses(text: str) -> list[tuple[str, bool, str]]:
    """(thing, negated, adjective), twice."""
    return [(thing, bool(negation), word) for thing, negation, word in re.findall(r"the (\w+) was (not )?(\w+)", text)]


def understood(text: str) -> dict[str, int]:
    found = {
        "food" if t in FOOD else "service": 4 - GRADE[word] if negated else GRADE[word] for t, negated, word in clauses(text)
    }
    assert set(found) == {"food", "service"}
    return found


def number(one: str, other: str) -> float:
    a, b = understood(one), understood(other)
    return 4 - sum(abs(a[part] - b[part]) for part in a) / 2


def test_numbers_are_those_of_the_opinions() -> None:
    for pair in likenesses("test"):
        assert float(pair.label) == number(pair.text, pair.second), pair


def test_the_examples() -> None:
    first = "the soup was good and the waiter was awful ."
    assert number(first, "the hostess was terrible but the bread was not poor .") == 4
    assert number(first, "the soup was not good and the waiter was awful .") == 3
    assert number(first, "the soup was awful and the waiter was good .") == 1


def test_what_is_denied_has_an_opposite() -> None:
    denied = {word for pair in likenesses("train") for text in pair[:2] for _, negated, word in clauses(text) if negated}
    assert denied == {"bad", "poor", "good", "nice"}


def test_sizes_no_pair_twice_and_the_whole_range() -> None:
    splits = {split: likenesses(split) for split in SIZES}
    assert {split: len(found) for split, found in splits.items()} == SIZES
    assert len({pair[:2] for found in splits.values() for pair in found}) == sum(SIZES.values())
    numbers = [float(pair.label) for pair in splits["train"]]
    assert set(numbers) == {n / 2 for n in range(9)}


def test_half_of_what_is_asked_is_new_to_training() -> None:
    for split, share in (("train", 0.0), ("test", 0.5)):
        new = [any(held_out(t, word) for text in pair[:2] for t, _, word in clauses(text)) for pair in likenesses(split)]
        assert sum(new) == share * len(new)


def test_words_in_common_are_a_poor_guide() -> None:
    pairs = likenesses("test")
    words = [[set(text.split()) for text in pair[:2]] for pair in pairs]
    shared = [len(a & b) / len(a | b) for a, b in words]
    assert 0.1 < np.corrcoef(shared, [float(pair.label) for pair in pairs])[0, 1] < 0.4
