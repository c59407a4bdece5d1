"""A sentence longer than a model can see is read in overlapping windows, cut at word ends, and every word is asked of one.

Each window begins about half a window behind the one before. A word that stands in two of them is asked of the one where it has
more context on its shorter side: up to the middle of what they share it is the first one's, from there on the second one's.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

LARGEST = 4  # a word may fill a quarter of a window: then every window has several, and neighbours overlap


class WordWindow(NamedTuple):
    """Words `first` to `last` are seen, and of those `asked` to `until` it is said what they are; ends not included."""

    first: int
    last: int
    asked: int
    until: int


def word_windows(sizes: Sequence[int], room: int) -> list[WordWindow]:
    """For words of so many pieces, none of them more than `room // LARGEST`."""
    if sum(sizes) <= room:
        return [WordWindow(0, len(sizes), 0, len(sizes))]
    ends = np.cumsum(sizes)
    starts = ends - sizes
    seen, first = list[tuple[int, int]](), 0
    while True:
        last = int(np.searchsorted(ends, starts[first] + room, side="right"))
        seen.append((first, last))
        if last == len(sizes):
            break
        first = int(np.searchsorted(starts, starts[first] + room // 2))
    turns = [0, *(_turn(starts, ends, last, first) for (_, last), (first, _) in pairwise(seen)), len(sizes)]
    return [WordWindow(*window, asked, until) for window, asked, until in zip(seen, turns, turns[1:])]


def _turn(starts: np.ndarray, ends: np.ndarray, last: int, first: int) -> int:
    """Where the window that ends before `last` gives way to the next one, which begins with `first`."""
    shared = np.arange(first, last)
    left_behind = ends[last - 1] - ends[shared]
    gained = starts[shared] - starts[first]
    return first + int(np.count_nonzero(gained < left_behind))
