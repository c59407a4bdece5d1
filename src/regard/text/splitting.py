"""Where the words of a text stand: runs of letters and digits, and each sign of punctuation by itself, much as in CoNLL's files.

    Dr. O'Brien's ex-wife paid $3,500.50 to U.S. firms.    Dr . O'Brien 's ex-wife paid $ 3,500.50 to U.S. firms .

Letters are those of any script, with the marks and joiners on them; a Han character is a word, as it is to BERT.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple
from unicodedata import category

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


class Place(NamedTuple):
    start: int
    end: int


def word_places(text: str) -> list[Place]:
    """Every word, in order; what lies between them is white space."""
    kinds = "".join(map(_kind, text))
    return [Place(*found.span()) for found in WORD.finditer(kinds)]


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
