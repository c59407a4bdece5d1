"""A source sentence and its target: the unit of every sequence-to-sequence data set."""

from __future__ import annotations

from typing import NamedTuple


class Pair(NamedTuple):
    source: str
    target: str
