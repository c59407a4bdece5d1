"""Counts against numpy and collections, and each warning where it is due and nowhere else."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.data.sources import Pair
from regard.data.sources.parallel import check_pairs, overlap
from tools.corpora.english_french import english_french

pairs_of_few_letters = st.lists(st.builds(Pair, st.text("ab ", min_size=1), st.text("ab ", min_size=1)), min_size=1)


@given(pairs=pairs_of_few_letters)
@settings(max_examples=80)
def test_counts(pairs: list[Pair]) -> None:
    summary = check_pairs(pairs, "train")
    for side, lengths in (("source", summary.source), ("target", summary.target)):
        texts = [getattr(pair, side) for pair in pairs]
        characters = np.array([len(text) for text in texts])
        words = np.array([len(text.split()) for text in texts])
        assert lengths.characters_mean == pytest.approx(characters.mean())
        assert lengths.words_mean == pytest.approx(words.mean())
        assert (lengths.characters_max, lengths.words_max) == (characters.max(), words.max())
        assert lengths.longest == characters.argmax() + 1
    assert summary.pairs == len(pairs)
    assert summary.duplicates == sum(count - 1 for count in Counter(pairs).values())
    assert summary.identical == sum(source == target for source, target in pairs)


@given(train=pairs_of_few_letters, test=pairs_of_few_letters)
@settings(max_examples=50)
def test_overlap_counts_test_pairs(train: list[Pair], test: list[Pair]) -> None:
    assert overlap(train, test) == len([pair for pair in test if train.count(pair)])


def test_each_warning_names_its_pairs() -> None:
    fine = [Pair(f"a sentence number {n}", f"ein Satz Nummer {n}") for n in range(96)]
    odd = [fine[0], Pair("same", "same"), Pair("x" * 1001, "y" * 900), Pair("ja", "a much longer sentence")]
    warnings = check_pairs([*fine, *odd], "train").warnings()
    assert [warning.split(" pairs (1.0%) ")[0] for warning in warnings] == ["1 of 100"] * 4
    assert "repeat" in warnings[0]
    assert "equal to their source" in warnings[1]
    assert warnings[2].endswith("very long side: pair 99")
    assert warnings[3].endswith("lines have slipped: pair 100")


def test_only_the_first_odd_pairs_are_named() -> None:
    pairs = [Pair("x" * 50 + str(n), "y") for n in range(7)]
    assert check_pairs(pairs, "train").warnings()[0].endswith("pairs 1, 2, 3, 4, 5, ...")


def test_limits_are_exact() -> None:
    assert check_pairs([Pair("x" * 30, "y" * 6)], "t").lopsided == ()
    assert check_pairs([Pair("x" * 31, "y" * 6)], "t").lopsided == (1,)
    assert check_pairs([Pair("y", "x" * 20)], "t").lopsided == ()
    assert check_pairs([Pair("x" * 10, "y" * 11)], "t", long=10).long == (1,)
    assert check_pairs([Pair("x" * 10, "y" * 10)], "t", long=10).long == ()


def test_what_the_terminal_shows() -> None:
    summary = check_pairs([Pair("one two", "eins zwei"), Pair("three", "drei vier fünf")], "valid")
    assert summary.lines() == [
        "valid: 2 pairs",
        "  source: 1.5 words and 6.0 characters on average, at most 2 and 7 (pair 1)",
        "  target: 2.5 words and 11.5 characters on average, at most 3 and 14 (pair 2)",
    ]


def test_the_builtin_corpus_raises_no_warning() -> None:
    assert check_pairs(english_french("train"), "train").warnings() == []
    assert overlap(english_french("train"), english_french("test")) == 0


def test_no_pairs() -> None:
    with pytest.raises(UserError, match=r"test has no pairs.*data\.test=FILE"):
        check_pairs([], "test")
