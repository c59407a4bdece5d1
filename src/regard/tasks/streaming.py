"""Streaming of generated text: piece by piece, never half a character, and never beyond a stop.

Characters that may begin a stop are held back until it is known whether they do.
"""

from __future__ import annotations

from collections.abc import Sequence

from regard.core.terminal import Emit
from regard.text.tokenizer import Stream, Tokenizer

SHOWN = 60  # characters of a text in a report


def silent(piece: str) -> None:
    """Ignore a piece of text."""


def shown(text: str) -> str:
    """Return the beginning of a text, for a report."""
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


class StreamedText:
    """A text that grows; the space between it and the prompt that it comes `after` belongs to it."""

    def __init__(self, tokenizer: Tokenizer, stops: Sequence[str], emit: Emit = silent, after: Sequence[int] = ()) -> None:
        self.stream, self.stops, self.emit = Stream(tokenizer), stops, emit
        self.text, self.told, self.ids = "", 0, list[int]()
        self.stopped = False
        self.owed = len(tokenizer.decode(list(after))) - len(self.stream.add(after))  # characters of the prompt yet to come

    @property
    def waits(self) -> bool:
        """Return whether it may be emitted all at once, when it is complete."""
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
        """Return the number of characters at the end that may begin a stop."""
        sizes = (size for stop in self.stops for size in range(1, len(stop)) if self.text.endswith(stop[:size]))
        return max(sizes, default=0)
