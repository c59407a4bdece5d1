"""A word is found whole, wherever it stands, in any script."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.text.offsets import occurrences


@pytest.mark.parametrize(
    ("word", "text", "count"),
    [
        ("bank", "The bank; a Bank, BANK: bank's 'bank' (bank)", 6),
        ("bank", "banks embank bank_1 bank2 bánk", 0),
        ("bank", "bank-note and e-bank", 2),
        ("New York", "New York, new york, New Yorker", 2),
        ("a.b", "a.b axb a.b", 2),
        ("C++", "C++ and C++17 or C", 2),
        ("fatigué", "fatigué, FATIGUÉ, fatiguée", 2),
        ("fatigue", "fatigue\u0301", 0),  # the accent belongs to its letter
        ("कित", "किताब कित", 1),  # so does a vowel sign
        ("银行", "我在银行工作，银行很大", 2),
        ("ธนาคาร", "ผมไปธนาคารทุกวัน", 1),
        ("🙂", "a🙂b🙂", 2),
        ("straße", "die straße", 1),
    ],
)
def test_whole_words(word: str, text: str, count: int) -> None:
    found = occurrences(word, text)
    assert len(found) == count
    assert all(text[start:end].lower() == word.lower() for start, end in found)


@settings(max_examples=200)
@given(st.text("ab .,-", max_size=30), st.text("ab", min_size=1, max_size=2))
def test_among_ascii_words_it_is_the_word_boundary_of_regular_expressions(text: str, word: str) -> None:
    assert [tuple(span) for span in occurrences(word, text)] == [m.span() for m in re.finditer(rf"\b{word}\b", text)]
