"""Benchmarks of word vectors: analogies in the format of word2vec's questions-words.txt, and rated word pairs.

: capital-common-countries        a section; then a question a line: Athens is to Greece as Baghdad is to Iraq
Athens Greece Baghdad Iraq

tiger, cat, 7.35                  a pair and how alike people find it, with tabs, commas or spaces between; more columns,
                                  as of single raters, are not looked at, nor is a header
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from regard.core.errors import UserError
from regard.data.sources.files import numbered_lines

Question = tuple[str, str, str, str]


class Questions(NamedTuple):
    name: str
    sections: dict[str, list[Question]]


class Pairs(NamedTuple):
    name: str
    pairs: list[tuple[str, str]]
    ratings: list[float]


def read_word_test(path: Path) -> Questions | Pairs:
    """Read a benchmark; a first line that begins with a colon, or has four words, means analogies."""
    lines = [(number, line.strip()) for number, line in numbered_lines(path) if line.strip()]
    first = lines[0][1]
    if first.startswith(":") or (len(first.split()) == 4 and not any(map(_rating, re.split(r"[\s,]+", first)))):
        return Questions(path.name, _sections(path, lines))
    return _pairs(path, lines)


def _sections(path: Path, lines: list[tuple[int, str]]) -> dict[str, list[Question]]:
    found: dict[str, list[Question]] = {}
    section = "questions"
    for number, line in lines:
        if line.startswith(":"):
            section = line.removeprefix(":").strip() or section
            continue
        words = line.split()
        if len(words) != 4:
            raise UserError(
                f"{path}, line {number:,}: a question has four words, such as 'Athens Greece Baghdad Iraq', and this line has "
                f"{len(words)}: {line[:60]!r}."
            )
        found.setdefault(section, []).append((words[0], words[1], words[2], words[3]))
    if not found:
        raise UserError(f"{path} has sections, but no question in them; give a file such as questions-words.txt.")
    return found


def _pairs(path: Path, lines: list[tuple[int, str]]) -> Pairs:
    pairs, ratings = list[tuple[str, str]](), list[float]()
    for number, line in lines:
        fields = [field.strip() for field in re.split("\t|,|;", line)]
        fields = fields if len(fields) > 2 else line.split()
        rating = _rating(fields[2]) if len(fields) > 2 else None
        if rating is None and number == lines[0][0]:
            continue  # the names of the columns
        if rating is None or not (fields[0] and fields[1]):
            raise UserError(
                f"{path}, line {number:,}: two words and a number are expected, such as 'tiger, cat, 7.35', and here is "
                f"{line[:60]!r}."
            )
        pairs.append((fields[0], fields[1]))
        ratings.append(rating)
    if len(pairs) < 2:
        raise UserError(f"{path} has {len(pairs)} rated pairs, and a correlation needs two at least.")
    return Pairs(path.name, pairs, ratings)


def _rating(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if abs(number) < float("inf") else None
