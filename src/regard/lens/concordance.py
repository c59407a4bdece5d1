"""A word among its neighbours: as much of a sentence as fits on a line, cut at spaces, and the word apart from both sides."""

from __future__ import annotations

from typing import NamedTuple

from regard.lens.glyphs import sentence, visible
from regard.lens.uses import Use


class Line(NamedTuple):
    before: str
    word: str
    after: str

    def __str__(self) -> str:
        return f"{self.before}{self.word}{self.after}"


def line(use: Use, side: int) -> Line:
    """At most `side` characters on each side of the word, nothing in them invisible."""
    before, after = sentence(use.sentence[: use.start]), sentence(use.sentence[use.end :])
    gap_before = " " if use.sentence[: use.start][-1:].isspace() and before else ""
    gap_after = " " if use.sentence[use.end :][:1].isspace() and after else ""
    start = _cut(before[::-1], side - len(gap_before))[::-1]
    return Line(
        f"{start}{gap_before}", sentence(use.word) or visible(use.word), f"{gap_after}{_cut(after, side - len(gap_after))}"
    )


def _cut(text: str, room: int) -> str:
    """The beginning of a text, to the last whole word that fits with a mark behind it; a longer word is broken."""
    if len(text) <= room:
        return text
    whole = text[: room - 1].rpartition(" ")[0].rstrip()
    return f"{whole} …" if whole else f"{text[: room - 1]}…"
