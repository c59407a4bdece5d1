"""Sentence splitting: at . ! ? or …, with the quotes and brackets behind them, before what can begin another sentence.

    Dr. No left at 5 p.m. today. "Why?" she asked. Well... nobody knew.
    Dr. No left at 5 p.m. today. | "Why?" she asked. | Well... nobody knew.

A point ends nothing after a title or initials (Dr., J. S. Bach, the U.S. Senate), nor before a small letter, as in "p.m. today";
so a sentence that ends with "the U.S." goes on into the next. A blank line ends a sentence, and so does the line break of HTML,
which reviews from the web are full of; signs of Chinese and Japanese end one without a space behind them. A text with
SENTENCE_END between its sentences is split there and nowhere else, so sentences that were given one by one are kept.
"""

from __future__ import annotations

import re

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
    return not (small in NAME_FOLLOWS or (small in NUMBER_FOLLOWS and begins.isdigit()) or _initials(word[0]))


def _initials(word: str) -> bool:
    """Return True for initials: J. of J. S. Bach, U.S. of the U.S. Senate; but *I* is a word: it was I."""
    return word.isupper() and word != "I" and all(len(letter) == 1 for letter in word.split("."))
