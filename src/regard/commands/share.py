"""The part of an input that one of several processes answers."""

from __future__ import annotations

from typing import NamedTuple


class Share(NamedTuple):
    """The share of one process: whole chunks, so that texts are answered together that one process answers together."""

    rank: int = 0
    size: int = 1

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def of(self, count: int) -> range:
        """Return which of `count` chunks are its own: they follow each other, and all shares together are all chunks."""
        return range(count * self.rank // self.size, count * (self.rank + 1) // self.size)

    def starts(self, rows: int, chunk: int) -> range:
        """Return where its own chunks of so many rows begin."""
        every = range(0, rows, chunk)
        mine = self.of(len(every))
        return every[mine.start : mine.stop]


WHOLE = Share()
