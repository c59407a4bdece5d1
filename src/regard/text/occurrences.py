"""Where a word stands in a text: as a whole word, in capitals or not."""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

UNSPACED = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN")  # scripts that do not part words


class Span(NamedTuple):
    """Characters start to end, the last not counted."""

    start: int
    end: int


def occurrences(word: str, text: str) -> list[Span]:
    """Every place, in order; where a script does not part words, also inside of what may be a longer one."""
    found = [Span(*match.span()) for match in re.finditer(re.escape(word), text, re.IGNORECASE)]
    if any(unicodedata.name(character, "").startswith(UNSPACED) for character in word):
        return found
    return [span for span in found if not _goes_on(text, span.start - 1, word[0]) and not _goes_on(text, span.end, word[-1])]


def _goes_on(text: str, place: int, edge: str) -> bool:
    """Whether the character beside a word's edge belongs to the same word; an accent belongs to whatever it stands on."""
    if not 0 <= place < len(text):
        return False
    beside = unicodedata.category(text[place])[0]
    return beside == "M" or (_of_words(text[place]) and _of_words(edge))


def _of_words(character: str) -> bool:
    return character == "_" or unicodedata.category(character)[0] in "LMN"
