"""Sentences with their dependency trees, from files in the CoNLL-U format (universaldependencies.org/format.html).

    1   Let   let   VERB   VB   Mood=Imp   0   root   0:root   SpaceAfter=No

Ten columns with tabs between them, a word on each line, an empty line behind each sentence. Of them the number, the form, the
head, the relation and whether a space follows are read. Words that are written as one (1-2 don't) share its characters: each has
its own where they are spelled one after the other, else all have all. Empty nodes (8.1), which nobody wrote, are passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from regard.data.files import must_be_file, numbered_lines
from regard.errors import UserError

ENDINGS = (".conllu", ".conllu.gz")
COLUMNS = 10
NUMBER = re.compile("[0-9]+([-.][0-9]+)?")  # a word; several written as one; an empty node
ROOT = -1
LONGEST = 64  # words that may be written as one


class Word(NamedTuple):
    """text[start:end] of its sentence; the head is the number of a word, from 0, or ROOT."""

    form: str
    start: int
    end: int
    head: int
    relation: str  # without its subtype: nsubj of nsubj:pass


@dataclass(frozen=True)
class Parsed:
    text: str
    words: tuple[Word, ...]
    place: str  # where it stands, for complaints


class _Row(NamedTuple):
    line: int
    number: str
    form: str
    head: str
    relation: str
    spaced: bool


def read_conllu(path: Path, limit: int | None = None) -> list[Parsed]:
    """All sentences, or the first `limit`."""
    path = Path(path).expanduser()
    must_be_file(path)
    if not path.name.lower().endswith(ENDINGS):
        raise UserError(f"{path} must end in .conllu (or .conllu.gz), the format of dependency trees; give such a file.")
    found = list(islice(_sentences(path), limit))
    if not found:
        raise UserError(f"{path} has no sentences: all of its lines are comments. Give a file with words in it.")
    return found


def _sentences(path: Path) -> Iterator[Parsed]:
    rows: list[_Row] = []
    for line, text in chain(numbered_lines(path), [(0, "")]):
        if text.startswith("#"):
            continue
        if text.strip():
            rows.append(_row(path, line, text))
        elif rows:
            yield _parsed(path, rows)
            rows = []


def _row(path: Path, line: int, text: str) -> _Row:
    cells = text.split("\t")
    if len(cells) != COLUMNS:
        raise UserError(
            f"{path}, line {line}: columns found: {len(cells)}, expected: {COLUMNS} with tabs between them, as CoNLL-U has them. "
            "Give a file of a treebank, such as one of Universal Dependencies."
        )
    number, form, head, relation = cells[0], cells[1], cells[6], cells[7]
    if not NUMBER.fullmatch(number):
        raise UserError(f"{path}, line {line}: {number!r} is no number of a word; expected 1, 2, ..., 1-2 or 8.1.")
    if not form.strip():
        raise UserError(f"{path}, line {line}: the word is empty. Fill in the second column, or take the line out.")
    return _Row(line, number, form, head, relation, "SpaceAfter=No" not in cells[9].split("|"))


def _parsed(path: Path, rows: list[_Row]) -> Parsed:
    words = [row for row in rows if row.number.isdecimal()]
    for n, row in enumerate(words, start=1):
        if int(row.number) != n:
            raise UserError(
                f"{path}, line {row.line}: word {row.number} stands where word {n} is expected; put the lines in order."
            )
        _must_be_head(path, row, len(words))
    text, spans = _spelled(path, rows)
    found = [
        Word(row.form, *span, int(row.head) - 1 if int(row.head) else ROOT, row.relation.partition(":")[0])
        for row, span in zip(words, spans)
    ]
    return Parsed(text, tuple(found), f"{path}, line {rows[0].line}")


def _must_be_head(path: Path, row: _Row, count: int) -> None:
    if not row.head.isdecimal() or not row.relation.strip("_ "):
        raise UserError(
            f"{path}, line {row.line}: {row.form!r} has the head {row.head!r} and the relation {row.relation!r}; expected a "
            "number and a name. Give a file that was parsed."
        )
    if int(row.head) > count or int(row.head) == int(row.number):
        raise UserError(
            f"{path}, line {row.line}: the head of {row.form!r} is word {row.head}, but words go to {count}, and none is its own."
        )


def _spelled(path: Path, rows: list[_Row]) -> tuple[str, list[tuple[int, int]]]:
    """The text, and where in it each word stands."""
    text, spans = "", list[tuple[int, int]]()
    rest = iter(rows)
    for row in rest:
        if "." in row.number:
            continue
        start, text = len(text), text + row.form
        if row.number.isdecimal():
            spans.append((start, len(text)))
        else:
            spans += _together(row.form, [part.form for part in _parts(path, row, rest)], start)
        text += " " if row.spaced else ""
    return text.rstrip(), spans


def _parts(path: Path, row: _Row, rest: Iterator[_Row]) -> list[_Row]:
    """The words that are written as one."""
    first, _, last = row.number.partition("-")
    count = int(last) - int(first) + 1
    found = list(islice((part for part in rest if "." not in part.number), min(max(0, count), LONGEST)))
    if count < 1 or len(found) != count or [part.number for part in found] != [str(int(first) + n) for n in range(count)]:
        raise UserError(f"{path}, line {row.line}: {row.form!r} is said to be words {row.number}, which do not follow it.")
    return found


def _together(form: str, parts: list[str], start: int) -> list[tuple[int, int]]:
    if "".join(parts).casefold() != form.casefold() or len("".join(parts)) != len(form):
        return [(start, start + len(form))] * len(parts)
    spans = []
    for part in parts:
        spans.append((start, start + len(part)))
        start += len(part)
    return spans
