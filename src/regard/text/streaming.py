"""Text while it is being written: from ids as they come, whatever of their text can no longer change.

The text of an id depends on its neighbours: a character may take several bytes, each an id of its own; the first piece
loses its leading space; "##s" joins the word before it. So the last few ids are decoded again with what comes, and what is
new in their text is given out. Everything together is what `decode` makes of all the ids, and since only the last few are
decoded, the thousandth costs as much as the first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from regard.text.tokenizer import Tokenizer

KEPT = 3  # ids: a character has at most four bytes, so that many may wait for the one that completes it
UNFINISHED = "\ufffd"  # the decoder's sign for bytes that are no character, or none yet
BYTE_PIECE = re.compile(r"<0x[0-9A-F]{2}>")


class Stream:
    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._falls_back_to_bytes = tokenizer.decodes("ByteFallback")
        self._tail: list[int] = []
        self._given = 0  # characters of the tail's text

    def add(self, ids: Sequence[int]) -> str:
        """Add ids and return the text that has become final, which may be empty."""
        # Special and unknown ids, which have no text, must not push others out of the tail.
        known = [i for i in ids if self._tokenizer.raw.id_to_token(i) is not None]
        spoken = [i for i in known if i not in self._tokenizer.specials]
        self._tail += spoken
        if not spoken or self._in_a_run_of_bytes():
            return ""
        text = self._tokenizer.decode(self._tail)
        unsure = 1 if text.endswith(UNFINISHED) else 0  # an unfinished character is one sign, however many bytes it has
        new = text[self._given : len(text) - unsure]
        self._tail = self._tail[-KEPT:]
        self._given = len(self._tokenizer.decode(self._tail)) - unsure
        return new

    def end(self) -> str:
        """Return the rest of the text; the next `add` begins a new text."""
        rest = self._tokenizer.decode(self._tail)[self._given :]
        self._tail, self._given = [], 0
        return rest

    def _in_a_run_of_bytes(self) -> bool:
        """Return True within a run of byte tokens like <0xC3>, which become characters only when the run has ended."""
        if not self._falls_back_to_bytes or not self._tail:
            return False
        return BYTE_PIECE.fullmatch(str(self._tokenizer.raw.id_to_token(self._tail[-1]))) is not None
