"""Sentences with their dependency trees, or one column of them, from CoNLL-U files (universaldependencies.org/format.html).

    1   Let   let   VERB   VB   Mood=Imp   0   root   0:root   SpaceAfter=No

Ten columns with tabs between them, a word on each line, an empty line behind each sentence. Of them the number, the form, the
head, the relation and whether a space follows are read; or any one column, by its name or number. Words that are written as one
(1-2 don't) share its characters: each has its own where they are spelled one after the other, else all have all. Empty nodes
(8.1), which are not in the text, are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from regard.core.errors import UserError, nearest
from regard.data.sources.files import must_be_file, numbered_lines

ENDINGS = (".conllu", ".conllu.gz")
NAMES = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")  # of the columns
DOCUMENT = "# newdoc"  # begins the line before a document
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


class Column(NamedTuple):
    """The words of a sentence and one column's value for each."""

    forms: tuple[str, ...]
    values: tuple[str, ...]
    lines: tuple[int, ...]  # that they stand in
    document: int  # its number in the file; 0: the file does not say


class _Row(NamedTuple):
    line: int
    number: str
    form: str
    head: str
    relation: str
    spaced: bool
    cells: list[str]


def read_conllu(path: Path, limit: int | None = None) -> list[Parsed]:
    """Read all sentences, or the first `limit`."""
    path = Path(path).expanduser()
    must_be_file(path)
    if not is_conllu(path):
        raise UserError(f"{path} must end in .conllu (or .conllu.gz), the format of dependency trees; give such a file.")
    found = list(islice((_parsed(path, rows) for _, rows in _blocks(path)), limit))
    if not found:
        raise UserError(f"{path} has no sentences: all of its lines are comments. Give a file with words in it.")
    return found


def is_conllu(path: Path) -> bool:
    return path.name.lower().endswith(ENDINGS)


def read_column(path: Path, form: str = "form", column: str = "upos") -> Iterator[Column]:
    """Read the words and one column of every sentence; columns have the names of the format, or numbers from 0."""
    word, value = (_number_of(path, name) for name in (form, column))
    for document, rows in _blocks(path):
        words = _words(path, rows)
        yield Column(
            tuple(row.cells[word] for row in words),
            tuple(row.cells[value] for row in words),
            tuple(row.line for row in words),
            document,
        )


def _number_of(path: Path, name: str) -> int:
    if name.isdecimal() and int(name) < len(NAMES):
        return int(name)
    if name.lower() not in NAMES:
        raise UserError(f"{path} has no column {name!r}{nearest(name.lower(), NAMES)} Choose, such as data.columns=form,xpos.")
    return NAMES.index(name.lower())


def _blocks(path: Path) -> Iterator[tuple[int, list[_Row]]]:
    """Yield the lines of each sentence without comments, and the number of its document."""
    rows, document = list[_Row](), 0
    for line, text in chain(numbered_lines(path), [(0, "")]):
        if text.startswith("#"):
            document += text.startswith(DOCUMENT)
            continue
        if text.strip():
            rows.append(_row(path, line, text))
        elif rows:
            yield document, rows
            rows = []


def _row(path: Path, line: int, text: str) -> _Row:
    cells = text.split("\t")
    if len(cells) != len(NAMES):
        raise UserError(
            f"{path}, line {line}: columns found: {len(cells)}, expected: {len(NAMES)} with tabs between them, as CoNLL-U has "
            "them. Give a file of a treebank, such as one of Universal Dependencies."
        )
    number, form, *_, head, relation, _, other = cells
    if not NUMBER.fullmatch(number):
        raise UserError(f"{path}, line {line}: {number!r} is no number of a word; expected 1, 2, ..., 1-2 or 8.1.")
    if not form.strip():
        raise UserError(f"{path}, line {line}: the word is empty. Fill in the second column, or take the line out.")
    return _Row(line, number, form, head, relation, "SpaceAfter=No" not in other.split("|"), cells)


def _words(path: Path, rows: list[_Row]) -> list[_Row]:
    """Return the rows that are words of their own, neither multiword tokens nor empty nodes."""
    words = [row for row in rows if row.number.isdecimal()]
    for n, row in enumerate(words, start=1):
        if int(row.number) != n:
            raise UserError(
                f"{path}, line {row.line}: word {row.number} stands where word {n} is expected; put the lines in order."
            )
    return words


def _parsed(path: Path, rows: list[_Row]) -> Parsed:
    words = _words(path, rows)
    for row in words:
        if not row.head.isdecimal() or not row.relation.strip("_ "):
            raise UserError(
                f"{path}, line {row.line}: {row.form!r} has the head {row.head!r} and the relation {row.relation!r}; expected a "
                "number and a name. Give a file that was parsed."
            )
        if int(row.head) > len(words) or int(row.head) == int(row.number):
            raise UserError(
                f"{path}, line {row.line}: the head of {row.form!r} is word {row.head}, but words go to {len(words)}, and "
                "none is its own."
            )
    text, spans = _spelled(path, rows)
    found = [
        Word(row.form, *span, int(row.head) - 1 if int(row.head) else ROOT, row.relation.partition(":")[0])
        for row, span in zip(words, spans)
    ]
    return Parsed(text, tuple(found), f"{path}, line {rows[0].line}")


def _spelled(path: Path, rows: list[_Row]) -> tuple[str, list[tuple[int, int]]]:
    """Return the text of a sentence, and where in it each word stands."""
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
    """Yield groups of words that are written as one."""
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
