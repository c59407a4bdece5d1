"""Where in a text its pieces stand: from which character to which, without the white space that some pieces begin with."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Placed(NamedTuple):
    """The ids of a text, and the characters each stands for: text[start:end], nothing of it for a piece that is white space."""

    ids: list[int]
    starts: np.ndarray
    ends: np.ndarray

    def pieces_of(self, start: int, end: int) -> tuple[int, int] | None:
        """The first and the last piece that have a character of text[start:end]."""
        touched = np.flatnonzero((self.starts < end) & (self.ends > start) & (self.starts < self.ends))
        return (int(touched[0]), int(touched[-1])) if len(touched) else None

    def characters_of(self, first: int, last: int) -> tuple[int, int]:
        """What these pieces stand for together."""
        solid = np.flatnonzero(self.starts[first : last + 1] < self.ends[first : last + 1]) + first
        return (int(self.starts[solid].min()), int(self.ends[solid].max())) if len(solid) else (0, 0)


def placed(text: str, ids: list[int], offsets: Sequence[tuple[int, int]]) -> Placed:
    fitted = [_fitted(text, start, end) for start, end in offsets]
    starts, ends = zip(*fitted) if fitted else ((), ())
    return Placed(ids, np.array(starts, np.int64), np.array(ends, np.int64))


def _fitted(text: str, start: int, end: int) -> tuple[int, int]:
    """Without white space around it; with the accents of its last letter, which a vocabulary may have taken off or composed."""
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    while start < end < len(text) and unicodedata.combining(text[end]):
        end += 1
    return start, end
