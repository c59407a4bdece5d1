"""Character offsets of tokens and words in a text, without the white space that some tokens begin with; and its sentences.

Words (`word_places`) are runs of letters and digits, and each punctuation mark by itself, much as in CoNLL's files:

    Dr. O'Brien's ex-wife paid $3,500.50 to U.S. firms.    Dr . O'Brien 's ex-wife paid $ 3,500.50 to U.S. firms .

Letters are those of any script, with the marks and joiners on them; a Han character is a word, as it is to BERT.
`occurrences` finds a word as a whole word, in capitals or not.

`sentences` splits a text at . ! ? or …, with the quotes and brackets behind them, before what can begin another sentence.

    Dr. No left at 5 p.m. today. "Why?" she asked. Well... nobody knew.
    Dr. No left at 5 p.m. today. | "Why?" she asked. | Well... nobody knew.

A point ends nothing after a title or initials (Dr., J. S. Bach, the U.S. Senate), nor before a small letter, as in "p.m. today";
so a sentence that ends with "the U.S." goes on into the next. A blank line ends a sentence, and so does the line break of HTML,
which reviews from the web are full of; signs of Chinese and Japanese end one without a space behind them. A text with
SENTENCE_END between its sentences is split there and nowhere else, so sentences that were given one by one are kept.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple
from unicodedata import category

import numpy as np


class Placed(NamedTuple):
    """The ids of a text, and the characters each stands for: text[start:end], nothing of it for a piece that is white space."""

    ids: list[int]
    starts: np.ndarray
    ends: np.ndarray

    def pieces_of(self, start: int, end: int) -> tuple[int, int] | None:
        """Return the first and the last token that cover a character of text[start:end]."""
        touched = np.flatnonzero((self.starts < end) & (self.ends > start) & (self.starts < self.ends))
        return (int(touched[0]), int(touched[-1])) if len(touched) else None

    def characters_of(self, first: int, last: int) -> tuple[int, int]:
        """Return the span of characters that these tokens cover together."""
        solid = np.flatnonzero(self.starts[first : last + 1] < self.ends[first : last + 1]) + first
        return (int(self.starts[solid].min()), int(self.ends[solid].max())) if len(solid) else (0, 0)


def place_tokens(text: str, ids: list[int], offsets: Sequence[tuple[int, int]]) -> Placed:
    fitted = [_fitted(text, start, end) for start, end in offsets]
    starts, ends = zip(*fitted) if fitted else ((), ())
    return Placed(ids, np.array(starts, np.int64), np.array(ends, np.int64))


def _fitted(text: str, start: int, end: int) -> tuple[int, int]:
    """Trim white space from a span, and extend it over combining accents of its last letter."""
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    while start < end < len(text) and unicodedata.combining(text[end]):
        end += 1
    return start, end


# Of the kinds of characters: A capital, a other letter, d digit, h Han, s space, ' - . , : themselves, p any other sign.
WORD = re.compile(
    r"""(?<![Aad])[Aa](?:\.[Aa](?![Aad]))+\.?    # letters with points between them: U.S., e.g.
    | (?<![Aad])A\.(?=s[Aad])                    # an initial
    | d+(?:[.,:]d+)+(?![Aad])                    # a number
    | [Aad]+(?:-[Aad]+|'[Aad]{3,})*              # a word, or several joined
    | (?<=[Aad])'[Aad]{1,2}(?![Aad])             # what is joined to the end of one: 's, 'll
    | [^s]""",
    re.VERBOSE,
)
HAN = re.compile("[\u2e80-\u2fdf\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
ITSELF = {"'": "'", "’": "'", "-": "-", "‐": "-", "‑": "-", ".": ".", ",": ",", ":": ":", "_": "a", "\u200b": "s", "\ufeff": "s"}


class Span(NamedTuple):
    """Characters start to end, the last not counted."""

    start: int
    end: int


def word_places(text: str) -> list[Span]:
    """Return every word in order; white space lies between them."""
    kinds = "".join(map(_kind, text))
    return [Span(*found.span()) for found in WORD.finditer(kinds)]


@lru_cache(maxsize=4096)
def _kind(character: str) -> str:
    if character in ITSELF:
        return ITSELF[character]
    if HAN.match(character):
        return "h"
    match category(character):
        case "Nd":
            return "d"
        case "Zs" | "Zl" | "Zp" | "Cc":
            return "s"
        case "Cf":
            return "a"  # joiners and soft hyphens stand within words
        case other:
            return "A" if other == "Lu" else "a" if other[0] in "LMN" else "p"


UNSPACED = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN")  # scripts that do not part words


def occurrences(word: str, text: str) -> list[Span]:
    """Return every occurrence of a word in order; in scripts without spaces also inside of longer words."""
    found = [Span(*match.span()) for match in re.finditer(re.escape(word), text, re.IGNORECASE)]
    if any(unicodedata.name(character, "").startswith(UNSPACED) for character in word):
        return found
    return [span for span in found if not _goes_on(text, span.start - 1, word[0]) and not _goes_on(text, span.end, word[-1])]


def _goes_on(text: str, place: int, edge: str) -> bool:
    """Return True if the character beside a word's edge belongs to the word; an accent belongs to its letter."""
    if not 0 <= place < len(text):
        return False
    beside = unicodedata.category(text[place])[0]
    return beside == "M" or (_of_words(text[place]) and _of_words(edge))


def _of_words(character: str) -> bool:
    return character == "_" or unicodedata.category(character)[0] in "LMN"


SENTENCE_END = "\u2028"  # the line separator: white space to every tokenizer
TITLES = "mr mrs ms mx dr prof st rev hon gen col sgt capt lt gov sen rep messrs mme mlle"
NAME_FOLLOWS = {*TITLES.split(" "), "vs", "fig", "eq", "vol", "pp"}
NUMBER_FOLLOWS = {"no", "nos", "p", "ch"}
BREAKS = re.compile(r"(?:\s*<br\s*/?>\s*)+|\n[^\S\n]*\n\s*", re.IGNORECASE)
END = re.compile(r"(?P<sign>[.!?…‽]+)(?P<closed>[\"'”’»)\]]*)(?=\s)\s+|(?P<wide>[。！？]+[」』”’）]*)")
LAST_WORD = re.compile(r"[^\W\d_]+(?:\.[^\W\d_]+)*\Z")
OPENING = "\"'“‘«([—–-¿¡* "


def sentences(text: str) -> list[str]:
    """Return the sentences without the white space around them; none is empty."""
    if SENTENCE_END in text:
        parts = text.split(SENTENCE_END)
    else:
        parts = [sentence for block in BREAKS.split(text) for sentence in _split(block)]
    return [found for part in parts if (found := part.strip())]


def _split(block: str) -> list[str]:
    found, start = [], 0
    for end in END.finditer(block):
        if end["wide"] or _ends(block[start : end.start()], end, block[end.end() :]):
            found.append(block[start : end.end()])
            start = end.end()
    return [*found, block[start:]]


def _ends(before: str, end: re.Match[str], after: str) -> bool:
    begins = after.lstrip(OPENING)[:1]
    if begins.islower():
        return False  # as after a quotation, a pause or an abbreviation
    if end["sign"] != "." or end["closed"]:
        return True
    word = LAST_WORD.search(before)
    if word is None:
        return True
    small = word[0].lower()
    # J. of J. S. Bach, U.S. of the U.S. Senate; but *I* is a word: it was I.
    initials = word[0].isupper() and word[0] != "I" and all(len(letter) == 1 for letter in word[0].split("."))
    return not (small in NAME_FOLLOWS or (small in NUMBER_FOLLOWS and begins.isdigit()) or initials)
