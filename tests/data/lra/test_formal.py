"""Parity and brackets: labels by other means than theirs."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.lra import generate_sequences
from regard.data.lra.formal import BRACKETS, balanced

PAIRS = re.compile(r"\(\)|\[\]|\{\}|<>")


def erased(text: str) -> str:
    """What is left when neighbours that belong together are taken out again and again."""
    while (shorter := PAIRS.sub("", text)) != text:
        text = shorter
    return text


def deep(text: str) -> int:
    heights = np.cumsum([1 if symbol in "([{<" else -1 for symbol in text])
    return int(heights.max(initial=0))


@settings(max_examples=10)
@given(st.integers(8, 30), st.integers(0, 20), st.integers(0, 99))
def test_parity_is_that_of_the_ones(least: int, more: int, seed: int) -> None:
    for example in generate_sequences(f"builtin:parity@length={least}-{least + more}@count=3@seed={seed}/train"):
        assert example.label == ("odd" if example.text.count("1") % 2 else "even")
        assert least <= len(example.text.split()) <= least + more


@settings(max_examples=10)
@given(st.integers(1, 4), st.integers(1, 6), st.integers(6, 30), st.integers(0, 99))
def test_brackets_are_balanced_where_they_can_be_erased(kinds: int, depth: int, most: int, seed: int) -> None:
    labels = set()
    for example in generate_sequences(f"builtin:dyck@kinds={kinds}@depth={depth}@length=6-{most}@count=4@seed={seed}/train"):
        text = example.text.replace(" ", "")
        labels.add(example.label)
        assert (example.label == "balanced") == (not erased(text) and deep(text) <= depth)
        assert set(text) <= set("([{<"[:kinds] + ")]}>"[:kinds])
        assert 6 <= len(text) <= most


@given(st.text("([)]", max_size=12))
def test_the_stack_agrees_with_the_eraser_on_any_text(text: str) -> None:
    numbers = np.array([BRACKETS.index(symbol) for symbol in text], np.uint8)
    assert balanced(numbers, depth=3) == (not erased(text) and deep(text) <= 3)


def test_counting_brackets_does_not_help() -> None:
    found = generate_sequences("builtin:dyck@count=400/train")
    assert all(text.count("(") == text.count(")") and text.count("[") == text.count("]") for text in (e.text for e in found))
    assert 0.35 < np.mean([example.label == "balanced" for example in found]) < 0.65


def test_splits_of_a_small_language_share_nothing() -> None:
    counts = {"train": 1600, "valid": 150, "test": 150}
    splits = [
        {e.text for e in generate_sequences(f"builtin:parity@length=2-10@count={n}/{split}")} for split, n in counts.items()
    ]
    assert list(map(len, splits)) == list(counts.values())
    assert not splits[0] & splits[1]
    assert not (splits[0] | splits[1]) & splits[2]
    longer = {e.text for e in generate_sequences("builtin:parity@length=2-12@count=600/test")}
    assert not longer & splits[0]


def test_a_language_has_an_end() -> None:
    with pytest.raises(Exception, match=r"only .* different sequences were found, of 9,000 wanted"):
        generate_sequences("builtin:parity@length=2-6@count=9000/train")
