"""A document of any size in parts small enough to hold, cut only where a tokenizer cuts too.

The tokens of the parts, one after the other, are then the tokens of the whole. Between "l" and " d" of "well done" every
tokenizer here and every public one we know starts a new piece, whatever it does with white space and punctuation otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

LONGEST = 2**18  # characters: the pieces that `tokenizers` makes of so many take some 50 MB for as long as they are counted


class Part(NamedTuple):
    text: str
    ends: bool  # the last of its document


def in_parts(texts: Iterable[str], longest: int = LONGEST) -> Iterator[Part]:
    """One document, which comes in texts of any size; none at all if there is nothing but white space in it."""
    held: list[str] = []
    size, begun = 0, False
    for text in texts:
        held.append(text)
        size += len(text)
        if size <= longest:
            continue
        *whole, rest = _cut("".join(held), longest)
        yield from (Part(text, ends=False) for text in whole)
        held, size, begun = [rest], len(rest), True
    last = "".join(held)
    if begun or last.strip():
        yield Part(last, ends=True)


def _cut(text: str, longest: int) -> Iterator[str]:
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
