"""ListOps: what the lists come to, checked by an evaluator that reads them as text, one bracket after the other."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.rng import generator
from regard.data.lra import Sequences, generate_sequences
from regard.data.lra.formal import DIGITS, SYMBOLS, ListOps, depths, draw_listops
from regard.data.lra.generate import Range

MEANING: dict[str, Callable[[list[int]], int]] = {
    "[MIN": min,
    "[MAX": max,
    "[MED": lambda numbers: int(statistics.median(numbers)),
    "[SM": lambda numbers: sum(numbers) % 10,
}


def value(text: str) -> int:
    """By recursion over the words; the product works level by level."""
    words = iter(text.split())

    def expression(word: str) -> int:
        return int(word) if word.isdecimal() else MEANING[word](list(arguments()))

    def arguments() -> Iterator[int]:
        while (word := next(words)) != "]":
            yield expression(word)

    found = expression(next(words))
    assert not list(words)
    return found


def depth(text: str) -> int:
    """By the brackets."""
    deep = most = 0
    for word in text.split():
        deep += word.startswith("[") - (word == "]")
        most = max(most, deep)
    return most


def trees(chosen: ListOps, seed: int = 0) -> Sequences:
    flat, lengths, labels = draw_listops(chosen, generator(seed, "test"))
    return Sequences(SYMBOLS, flat, lengths, DIGITS, labels, "here")


def test_the_lecture_example() -> None:
    assert value("[MAX 4 3 [MIN 2 3 ] 1 0 [MED 1 5 8 9 2 ] ]") == 5


@settings(max_examples=15)
@given(st.integers(0, 2**31), st.integers(2, 6), st.integers(2, 12), st.integers(4, 40), st.integers(0, 60))
def test_lists_come_to_what_a_reader_makes_of_them(seed: int, deep: int, arguments: int, least: int, more: int) -> None:
    drawn = trees(ListOps(length=Range(least, least + more), depth=deep, arguments=arguments), seed)
    for example in drawn[:40]:
        words = example.text.split()
        assert str(value(example.text)) == example.label
        assert least <= len(words) <= least + more
        assert 1 <= depth(example.text) < deep


def test_depths_are_those_of_the_brackets() -> None:
    drawn = trees(ListOps(length=Range(4, 80), depth=8))
    assert depths(drawn.flat, drawn.lengths)[:200].tolist() == [depth(example.text) for example in drawn[:200]]


def test_the_published_lists() -> None:
    """Lengths, and how often each digit is the answer, as measured from the published generator: 969; 0 and 9 in one of six."""
    drawn = [trees(ListOps(), seed) for seed in range(3)]
    lengths, labels = np.concatenate([one.lengths for one in drawn]), np.concatenate([one.labels for one in drawn])
    assert (lengths.min(), lengths.max()) >= (501, 1900)
    assert lengths.max() <= 1999
    assert np.median(lengths) == pytest.approx(969, abs=40)
    shares = np.bincount(labels) / len(labels)
    assert shares[[0, 9]] == pytest.approx([0.169, 0.167], abs=0.025)
    assert (shares[1:9] > 0.05).all()
    assert (shares[1:9] < 0.11).all()
    for example in [one[n] for one in drawn for n in range(3)]:
        assert str(value(example.text)) == example.label


def test_lists_are_one_in_four_of_arguments_and_have_two_to_ten() -> None:
    """Below the root, of trees of any size; of those that fit a range more or fewer may be."""
    drawn = trees(ListOps(length=Range(4, 10**6), depth=4))
    steps = np.where(drawn.flat == 14, -1, np.where(drawn.flat >= 10, 1, 0))
    height = np.cumsum(steps)
    lists, digits = int(((steps > 0) & (height == 2)).sum()), int(((steps == 0) & (height == 1)).sum())
    assert lists / (lists + digits) == pytest.approx(0.25, abs=0.01)
    assert (lists + digits) / len(drawn) == pytest.approx(6, abs=0.1)


def test_a_short_split_is_the_beginning_of_a_long_one_and_splits_share_nothing() -> None:
    few, many = (generate_sequences(f"builtin:listops@length=5-20@count={count}/train") for count in (50, 400))
    assert [example.text for example in few] == [example.text for example in many[:50]]
    others = [generate_sequences(f"builtin:listops@length=5-20@count=200/{split}") for split in ("valid", "test")]
    texts = [{example.text for example in each} for each in (many, *others)]
    assert len(texts[0]) == 400
    assert not texts[0] & texts[1]
    assert not (texts[0] | texts[1]) & texts[2]
    assert generate_sequences("builtin:listops@length=5-20@count=50@seed=3/train")[0].text != few[0].text
