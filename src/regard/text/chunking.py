"""A long text in parts, cut only where a tokenizer cuts too.

The tokens of the parts, one after the other, are then the tokens of the whole. Between "l" and " d" of "well done" every
tokenizer here and every public one we know starts a new piece, whatever it does with white space and punctuation otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

LONGEST = 2**18  # characters: the pieces that `tokenizers` makes of so many take some 50 MB for as long as they are counted
SPACE = re.compile(r"\s")


def cut_long(text: str, longest: int = LONGEST) -> Iterator[str]:
    """The text in parts of at most so many characters; itself, if it is not longer."""
    begin = 0
    while len(text) - begin > longest:
        end = _between_words(text, begin, begin + longest) or _before_space(text, begin, begin + longest) or begin + longest
        yield text[begin:end]
        begin = end
    yield text[begin:]


def _between_words(text: str, begin: int, end: int) -> int | None:
    """The last place in front of a single space between two letters."""
    place = text.rfind(" ", begin + 1, end)
    while place > begin:
        if text[place - 1].isalpha() and text[place + 1].isalpha():
            return place
        place = text.rfind(" ", begin + 1, place)
    return None


def _before_space(text: str, begin: int, end: int) -> int | None:
    """For text without such a place: the last one in front of white space."""
    spaces = (place for place in range(end, begin, -1) if text[place] in " \n" and not text[place - 1].isspace())
    return next(spaces, None)


def has_long_words(text: str, longest: int) -> bool:
    """Whether there may be so many characters in a row with no white space between them, or nothing but white space."""
    half = longest // 2  # so many characters in a row cover a whole block of half as many, wherever they begin
    blocks = (text[begin : begin + half] for begin in range(0, len(text) - half + 1, half))
    return any(block.isspace() or not SPACE.search(block) for block in blocks)
