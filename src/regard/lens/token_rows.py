"""Tokens as people read them: each piece by its name, to which word it belongs, and whether it is a mark instead of text.

A word is what `text/offsets.py` calls one. A piece belongs to the word that its first letter stands in; one of white space
alone, to the word that follows it. Marks are words of their own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regard.lens.subject import TokenRow
from regard.text.offsets import word_places
from regard.text.tokenizer import Tokenizer


def typed(tokenizer: Tokenizer, text: str) -> TokenRow:
    """Return the tokens of a text that was typed."""
    (placed,) = tokenizer.encode_placed([text])
    return given(tokenizer, placed.ids, _words(text, placed.starts))


def written(tokenizer: Tokenizer, ids: Sequence[int]) -> TokenRow:
    """Return the tokens of a text that a model wrote.

    They need not be those that its text would be cut into, so each is found by the text that it adds.
    """
    text, ids = tokenizer.decode(ids), list(ids)
    starts, end = list[int](), 0
    for n in range(len(ids)):
        begin, end = end, max(end, min(len(tokenizer.decode(ids[: n + 1])), len(text)))
        added = text[begin:end]
        # A piece that adds nothing is a byte more of a letter that has begun.
        starts.append(begin + len(added) - len(added.lstrip()) if added else max(0, begin - 1))
    return given(tokenizer, ids, _words(text, np.array(starts, np.int64)))


def given(tokenizer: Tokenizer, ids: Sequence[int], words: Sequence[int]) -> TokenRow:
    """Pieces whose words are known."""
    roles = tokenizer.roles
    marks = tokenizer.specials - {roles.mask, roles.unk}  # which stand where a word stood
    return TokenRow(tuple(tokenizer.tokens(ids)), tuple(ids), tuple(words), tuple(i in marks for i in ids))


def mark(tokenizer: Tokenizer, *ids: int) -> TokenRow:
    """Marks by themselves: <eos>, [SEP]. A vocabulary may lend a piece of text for one, but here it is none."""
    return TokenRow(tuple(tokenizer.tokens(ids)), ids, tuple(range(len(ids))), (True,) * len(ids))


def _words(text: str, starts: np.ndarray) -> list[int]:
    """Return the word number of pieces that begin at these characters, from 0 in the order of the text."""
    ends = np.array([word.end for word in word_places(text)], np.int64)
    found = np.searchsorted(ends, starts, side="right").tolist()
    numbers: dict[int, int] = {}
    return [numbers.setdefault(word, len(numbers)) for word in found]
