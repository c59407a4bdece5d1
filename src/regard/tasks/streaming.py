"""A text while it is written: told piece by piece, never half a character, and never beyond where it is to stop.

What might be the beginning of a stop is held back until it is known whether it is one.
"""

from __future__ import annotations

from collections.abc import Sequence

from regard.core.terminal import Emit
from regard.text.streaming import Stream
from regard.text.tokenizer import Tokenizer

SHOWN = 60  # characters of a text in a report


def silent(piece: str) -> None:
    """For texts that nobody watches."""


def shown(text: str) -> str:
    """Its beginning, for a report."""
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


class StreamedText:
    """Where it comes `after` a prompt, the space between the two is its own, also with pieces that lose it at a beginning."""

    def __init__(self, tokenizer: Tokenizer, stops: Sequence[str], emit: Emit = silent, after: Sequence[int] = ()) -> None:
        self.stream, self.stops, self.emit = Stream(tokenizer), stops, emit
        self.text, self.told, self.ids = "", 0, list[int]()
        self.stopped = False
        self.owed = len(tokenizer.decode(list(after))) - len(self.stream.add(after))  # characters of the prompt yet to come

    @property
    def waits(self) -> bool:
        """May it be told all at once, when it is written?"""
        return self.emit is silent and not self.stops

    def add(self, ids: Sequence[int]) -> bool:
        """Is it to stop here? Where it may, tokens are looked at one by one, so that none behind the stop is kept."""
        for some in ([i] for i in ids) if self.stops else [ids]:
            if self.stopped:
                break
            self.ids += some
            self._grow(self.stream.add(some))
        return self.stopped

    def end(self) -> None:
        """Nothing comes any more."""
        if not self.stopped:
            self._grow(self.stream.end())
        self._tell(len(self.text))

    def _grow(self, piece: str) -> None:
        begin = len(self.text)
        own = piece[self.owed :]
        self.owed -= len(piece) - len(own)
        self.text += own
        found = [(at + len(stop), at) for stop in self.stops if (at := self.text.find(stop, max(0, begin - len(stop) + 1))) >= 0]
        if found:  # the one that is whole first, however many characters come at once
            self.text, self.stopped = self.text[: min(found)[1]], True
        self._tell(len(self.text) - (0 if self.stopped else self._unsure()))

    def _tell(self, end: int) -> None:
        if end > self.told:
            self.emit(self.text[self.told : end])
            self.told = end

    def _unsure(self) -> int:
        """How much of the end may be the beginning of a stop."""
        sizes = (size for stop in self.stops for size in range(1, len(stop)) if self.text.endswith(stop[:size]))
        return max(sizes, default=0)
