"""Exact match and F1 are SQuAD's: worked out by hand from its evaluation script, article by article and word by word."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.metrics.question_answering import AnswerScores, exact, f1, mark, normalised

NORMALISED = [
    ("The Cat", "cat"),
    ("  an   apple\ta  day ", "apple day"),
    ("O'Neill's", "oneills"),
    ("a-hat", "ahat"),  # punctuation goes first, so that this "a" is none
    ("theatre, anthem", "theatre anthem"),  # no article inside a word
    ("U.S.A.", "usa"),
    ("$12.50", "1250"),
    ("the", ""),
    ("“quoted”", "“quoted”"),  # string.punctuation is ASCII
    ("Été", "été"),
]


@pytest.mark.parametrize(("text", "left"), NORMALISED)
def test_what_is_compared(text: str, left: str) -> None:
    assert normalised(text) == left


F1 = [
    ("the old clock", "an old clock", 1.0),
    ("the old clock in town", "old clock", 2 / 3),  # precision 2/4, recall 2/2
    ("clock", "the old clock", 2 / 3),  # precision 1/1, recall 1/2
    ("new new york", "new york", 0.8),  # "new" counts once: precision 2/3, recall 2/2
    ("york new", "new york", 1.0),  # in any order
    ("Denver", "Carolina Panthers", 0.0),
    ("", "clock", 0.0),
    ("clock", "", 0.0),
    ("", "", 1.0),
    ("the", "", 1.0),  # nothing is left of it
]


@pytest.mark.parametrize(("said", "reference", "expected"), F1)
def test_f1_by_hand(said: str, reference: str, expected: float) -> None:
    assert f1(said, reference) == pytest.approx(expected)
    assert f1(reference, said) == pytest.approx(expected)
    assert exact(said, reference) == (normalised(said) == normalised(reference))


def test_the_kindest_reference_counts_for_each_of_the_two() -> None:
    found = mark("October 1973", ["1973", "October", "October, 1973."])
    assert found == (1.0, 1.0)
    assert mark("in October 1973", ["1973", "October 1973"]) == (0.0, pytest.approx(0.8))
    assert mark("", []) == (1.0, 1.0)
    assert mark("1973", []) == (0.0, 0.0)
    assert mark("1973", ["the", "1973"]) == (1.0, 1.0)
    assert mark("the", ["a", "1973"]) == (0.0, 0.0)  # a reference of which nothing is left does not count beside others
    assert mark("the", ["a"]) == (1.0, 1.0)


def test_a_test_set() -> None:
    said = ["the old clock", "clock", "", "noon", ""]
    references = [["old clock"], ["an old clock", "lamp"], [], [], ["the harbour"]]
    scores = AnswerScores.of(said, references)
    assert scores.all == (5, pytest.approx(2 / 5), pytest.approx((1 + 2 / 3 + 1 + 0 + 0) / 5))
    assert scores.answerable == (3, pytest.approx(1 / 3), pytest.approx((1 + 2 / 3) / 3))
    assert scores.unanswerable == (2, 0.5, 0.5)
    assert scores.silent == 2
    assert scores.lines()[0] == "exact match   40.00%  2 of 5 questions"
    assert any(line.startswith("without       50.00%") for line in scores.lines())
    assert scores.as_dict()["unanswerable"] == {"questions": 2, "exact": 0.5, "f1": 0.5}
    plain = AnswerScores.of(said[:2], references[:2])
    assert len(plain.lines()) == 2
    assert set(plain.as_dict()) == {"questions", "exact", "f1", "silent"}


@given(st.text(max_size=30), st.text(max_size=30))
def test_f1_lies_between_exact_match_and_one(said: str, reference: str) -> None:
    assert exact(said, reference) <= f1(said, reference) <= 1.0
    assert (f1(said, reference) == 1.0) == (sorted(normalised(said).split()) == sorted(normalised(reference).split()))
