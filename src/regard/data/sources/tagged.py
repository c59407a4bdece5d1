"""Sentences with a tag for each word, from whatever people have: columns, JSON lines, the hub, or what comes along.

    "train.txt" "train.conll"       a word a line with its tag, in columns; an empty line between sentences (.bio .iob .tsv too)
    "train.conllu"                  a treebank's words and their parts of speech; data.columns=form,xpos takes another column
    "train.jsonl"                   {"words": ["Ann", "slept"], "tags": ["B-PER", "O"]} on each line (.ndjson too)
    "builtin:dispatches/train"      needs no network
    "hf:NAME@CONFIG:SPLIT"          `datasets` opens NAME; @CONFIG and :SPLIT (train) may be left out

Every file may be gzipped (.gz), and several of these may be given, to be read one after the other. Columns stand apart by tabs,
or where a line has none, by spaces; the first is the word and the last its tag, unless `columns` names two by number from 0.
Lines that begin with -DOCSTART- begin a document. JSON lines and the hub have names: "words" and "tags" unless
`columns` has others.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.errors import UserError, nearest
from regard.data.builtin import read_builtin
from regard.data.sources.conllu import ENDINGS, is_conllu, read_column
from regard.data.sources.files import JSON_LINES, must_be_file, numbered_lines, suffix_of
from regard.data.sources.records import Record, at_least_one, hub_records, json_records

BUILTIN = ("dispatches",)
NAMED = ("words", "tags")
COLUMNS = (".txt", ".conll", ".bio", ".iob", ".tsv")
DOCUMENT = "-DOCSTART-"
CHOOSE = "data.columns=WORDS,TAGS"


class TaggedSentence(NamedTuple):
    words: tuple[str, ...]
    tags: tuple[str, ...]
    place: str  # where it stands, for complaints
    lines: tuple[int, ...] = ()  # of its words, where each has a line of its own
    document: int = 0  # its number in the file; 0: the file does not say

    @property
    def group(self) -> tuple[object, ...]:
        """Return the group to split by: the sentences of a document, or, without documents, those with the same words."""
        return (self.place, self.document) if self.document else self.words

    def at(self, n: int) -> str:
        """Return the place of word n, for errors."""
        return f"{self.place}, line {self.lines[n]}" if self.lines else f"{self.place}, word {n + 1} ({self.words[n][:40]!r})"


def read_tagged(where: tuple[str, ...], columns: tuple[str, ...] = (), limit: int | None = None) -> list[TaggedSentence]:
    """Read all sentences, or the first `limit`, with their tags as written."""
    found = chain.from_iterable(_sentences(entry, columns) for entry in where)
    return at_least_one(list(islice(found, limit)), where, "sentences")


def _sentences(entry: str, columns: tuple[str, ...]) -> Iterator[TaggedSentence]:
    if entry.startswith("builtin:"):
        rows = enumerate(read_builtin(entry, BUILTIN, "tagged sentences"), start=1)
        return (TaggedSentence(tuple(w.split()), tuple(t.split()), f"{entry}, sentence {n}") for n, (w, t) in rows)
    if entry.startswith("hf:"):
        return (_from_record(record, columns or NAMED) for record in hub_records(entry))
    path = Path(entry).expanduser()
    must_be_file(path)
    suffix = suffix_of(path)
    if is_conllu(path):
        return _from_conllu(path, columns)
    if suffix in COLUMNS:
        return _from_columns(path, columns)
    if suffix in JSON_LINES:
        words, tags = columns or NAMED
        example = json.dumps({words: ["Ann", "slept"], tags: ["B-PER", "O"]})
        return (_from_record(record, (words, tags)) for record in json_records(path, (), example))
    raise UserError(
        f"{path}: tagged sentences come in files named *{', *'.join((*COLUMNS, ENDINGS[0], *JSON_LINES))} (or .gz of "
        "them). Write a word, a tab and its tag on each line, an empty line between sentences, and name the file *.conll."
    )


def _from_conllu(path: Path, columns: tuple[str, ...]) -> Iterator[TaggedSentence]:
    for found in read_column(path, *columns):
        if odd := [n for n, tag in enumerate(found.values) if not _is_tag(tag)]:
            raise UserError(f"{path}, line {found.lines[odd[0]]}: {found.values[odd[0]]!a:.40} is no tag; choose another column.")
        yield TaggedSentence(found.forms, found.values, str(path), found.lines, found.document)


def _from_columns(path: Path, columns: tuple[str, ...]) -> Iterator[TaggedSentence]:
    if not all(column.isdecimal() for column in columns):
        raise UserError(f"{path} has columns without names; choose them by number, for instance data.columns=0,3.")
    width = 0
    for document, rows in _blocks(path):
        words, tags = list[str](), list[str]()
        for number, cells in rows:
            width = width or len(cells)
            word, tag = _cells(cells, columns, width, f"{path}, line {number}")
            words.append(word)
            tags.append(tag)
        yield TaggedSentence(tuple(words), tuple(tags), str(path), tuple(number for number, _ in rows), document)


def _blocks(path: Path) -> Iterator[tuple[int, list[tuple[int, list[str]]]]]:
    """Yield the document number and the cells of each line, for every sentence."""
    rows, document = list[tuple[int, list[str]]](), 0
    for number, line in chain(numbered_lines(path), [(0, "")]):
        begins = line.startswith(DOCUMENT)
        if line.strip() and not begins:
            rows.append((number, [cell.strip() for cell in line.split("\t")] if "\t" in line else line.split()))
            continue
        if rows:
            yield document, rows
        rows, document = [], document + begins


def read_words(path: Path) -> list[tuple[str, ...]]:
    """Read the words of every sentence of a file with a word a line, whatever other columns it has."""
    if is_conllu(path):
        return [found.forms for found in read_column(path)]
    return [tuple(cells[0] for _, cells in rows) for _, rows in _blocks(path)]


def _cells(cells: list[str], columns: tuple[str, ...], width: int, place: str) -> tuple[str, str]:
    if len(cells) != width:
        raise UserError(
            f"{place}: columns found: {len(cells)}, expected: {width} as in the first line. Give every word its tag, and put an "
            "empty line between sentences."
        )
    first, last = map(int, columns) if columns else (0, width - 1)
    if first == last or max(first, last) >= width:
        asked = f"data.columns={','.join(columns)} asks for more" if columns else "a word and its tag are expected"
        raise UserError(f"{place}: columns found: {width}, but {asked}. Choose two by number from 0, such as data.columns=0,1.")
    if not (cells[first] and cells[last]):
        raise UserError(f"{place}: the {'tag' if cells[first] else 'word'} is empty. Fill it in, or take the line out.")
    if not _is_tag(cells[last]):
        raise UserError(f"{place}: {cells[last]!a:.40} is no tag. Write one word without spaces, such as B-PER or O.")
    return cells[first], cells[last]


def _from_record(record: Record, columns: tuple[str, ...]) -> TaggedSentence:
    words, tags = (_list_of(record, column) for column in columns)
    place = record[0]
    if len(words) != len(tags):
        raise UserError(f"{place}: words found: {len(words)}, tags: {len(tags)}. Give every word one tag.")
    if not words:
        raise UserError(f"{place}: there are no words. Take the sentence out, or fill it in.")
    for n, (word, tag) in enumerate(zip(words, tags), start=1):
        if not isinstance(word, str) or not word.strip() or any("\ud800" <= letter <= "\udfff" for letter in word):
            raise UserError(f"{place}, word {n}: {word!a:.40} is no word. Write text that is not empty, in quotes.")
        if not _is_tag(tag):
            raise UserError(f"{place}, word {n}: {tag!a:.40} is no tag. Write one word without spaces, such as B-PER or O.")
    return TaggedSentence(tuple(words), tuple(map(str, tags)), place)


def _list_of(record: Record, column: str) -> list[Any]:
    place, values = record
    if column not in values:
        raise UserError(f"{place}: there is no column {column!r}{nearest(column, values)} Choose with {CHOOSE}.")
    if not isinstance(found := values[column], list):
        raise UserError(f"{place}: column {column!r} holds {type(found).__name__}, but a list is needed. Choose with {CHOOSE}.")
    return found


def _is_tag(tag: object) -> bool:
    """Return True for text without spaces, or a whole number."""
    if isinstance(tag, str):
        return bool(tag) and tag.isprintable() and not any(map(str.isspace, tag))
    return isinstance(tag, int) and not isinstance(tag, bool)
