"""Sentences with an optional sense of the word in question, from the lines of a file or the command line.

    He sat on the river bank.
    He sat on the river bank.<TAB>river

Either every sentence has a sense or none has. A .csv file has its own rules for what parts a line; any file may be gzipped (.gz).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from regard.core.errors import UserError
from regard.data.sources.files import JSON_LINES, suffix_of
from regard.data.sources.records import table_rows


class Sentence(NamedTuple):
    text: str
    sense: str  # "" where none is said
    place: str  # where it stands, for complaints


def read_sentences(path: Path) -> list[Sentence]:
    """Read the sentences of a file; lines without text are left out."""
    path = path.expanduser()
    if suffix_of(path) in (".json", *JSON_LINES):
        raise UserError(f"{path} is JSON, but lines of text are needed: a sentence on each, or a sentence, a tab and its sense.")
    return _checked(_sentence(row, f"{path}, line {number}") for number, row in table_rows(path) if any(map(str.strip, row)))


def typed_sentences(texts: Sequence[str | tuple[str, str]]) -> list[Sentence]:
    """Read typed sentences: with a sense after a tab, or as a pair."""
    rows = [text.split("\t") if isinstance(text, str) else list(text) for text in texts]
    return _checked(_sentence(row, f"sentence {number}") for number, row in enumerate(rows, start=1))


def _sentence(row: list[str], place: str) -> Sentence:
    if len(row) > 2:
        raise UserError(
            f"{place}: columns found: {len(row)}, expected: a sentence, or a sentence and its sense. Correct the line."
        )
    text, sense = (unicodedata.normalize("NFC", part).strip() for part in [*row, ""][:2])
    if not text:
        raise UserError(f"{place} is empty; give a sentence.")
    try:
        f"{text}{sense}".encode()
    except UnicodeEncodeError:
        raise UserError(f"{place} holds half a character (a lone surrogate), which is not Unicode text. Take it out.") from None
    if len(row) == 2 and not sense:
        raise UserError(f"{place} ends in a tab without a sense behind it; write the sense, or take the tab out.")
    return Sentence(text, sense, place)


def _checked(found: Iterable[Sentence]) -> list[Sentence]:
    sentences = list(found)
    for sentence in sentences:
        if bool(sentence.sense) != bool(sentences[0].sense):
            has, lacks = sorted((sentence, sentences[0]), key=lambda given: not given.sense)
            raise UserError(f"{has.place} has a sense ({has.sense!r}), {lacks.place} has none; give all of them one, or none.")
    return sentences
