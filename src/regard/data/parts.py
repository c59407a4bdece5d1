"""A document of any size in parts small enough to hold, cut only where a tokenizer cuts too (see `text/cutting`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from regard.text.cutting import LONGEST, cut_long


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
        *whole, rest = cut_long("".join(held), longest)
        yield from (Part(text, ends=False) for text in whole)
        held, size, begun = [rest], len(rest), True
    last = "".join(held)
    if begun or last.strip():
        yield Part(last, ends=True)
