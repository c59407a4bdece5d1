"""Windows over words: every word is asked once, of the window where it has most context, and none is too long."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.batching.tagged import LARGEST, WordWindow, word_windows


@st.composite
def sentences(draw: st.DrawFn) -> tuple[list[int], int]:
    room = draw(st.integers(LARGEST, 40))
    return draw(st.lists(st.integers(1, room // LARGEST), min_size=1, max_size=120)), room


def context(sizes: list[int], window: WordWindow, word: int) -> int:
    """Pieces on the shorter side of a word."""
    return min(sum(sizes[window.first : word]), sum(sizes[word + 1 : window.last]))


@given(sentences())
@settings(max_examples=200)
def test_every_word_is_asked_once_where_it_has_most_context(given_: tuple[list[int], int]) -> None:
    sizes, room = given_
    found = word_windows(sizes, room)
    assert [word for window in found for word in range(window.asked, window.until)] == list(range(len(sizes)))
    for window in found:
        assert sum(sizes[window.first : window.last]) <= room
        assert window.first <= window.asked < window.until <= window.last
        for word in range(window.asked, window.until):
            others = [other for other in found if other.first <= word < other.last]
            assert context(sizes, window, word) == max(context(sizes, other, word) for other in others)


@given(sentences())
@settings(max_examples=100)
def test_windows_are_few_and_overlap(given_: tuple[list[int], int]) -> None:
    sizes, room = given_
    found = word_windows(sizes, room)
    assert len(found) == 1 or sum(sizes) > room
    assert len(found) <= 1 + 2 * sum(sizes) / (room // 2)
    assert all(after.first < before.last for before, after in pairwise(found))
    assert all(before.first < after.first for before, after in pairwise(found))


def test_by_hand() -> None:
    assert word_windows([1, 1, 2], 4) == [WordWindow(0, 3, 0, 3)]
    assert word_windows([1] * 12, 8) == [WordWindow(0, 8, 0, 6), WordWindow(4, 12, 6, 12)]
