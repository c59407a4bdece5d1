"""Pairs of texts from whatever people have: aligned files, tables, JSON lines, the hub, or a corpus that comes along.

    ("train.en", "train.de")          two text files; line n of one belongs to line n of the other
    ("train.tsv",) ("train.csv",)     a table; TSV is split at tabs and nothing else, CSV may quote
    ("train.jsonl",)                  one object on each line (.ndjson too)
    ("builtin:english-french/train",) a corpus that needs no network
    ("hf:NAME@CONFIG:SPLIT",)         `datasets` opens NAME; @CONFIG and :SPLIT may be left out, SPLIT is then train

Every file may be gzipped (.gz). `columns` says which two columns hold source and target. By name, the table's first row
is its header; by number ("0", "1") or not at all, it has none, and not at all means it has just two. JSON lines and the
hub have names only: "source" and "target" unless told otherwise, also inside a "translation" as the hub likes to have
it. Aligned files and built-in corpora have no columns and pay no heed to them, so that one recipe can mix sources.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping
from itertools import chain, islice, zip_longest
from pathlib import Path

from regard.data.builtin.english_french import english_french
from regard.data.files import must_be_file, numbered_lines
from regard.data.pair import Pair
from regard.errors import UserError, nearest

Columns = tuple[str, str]
Row = tuple[int, list[str]]
BUILTIN = {"english-french": english_french}
NAMED = ("source", "target")
TABLES = (".tsv", ".csv", ".jsonl", ".ndjson")
HUB = re.compile(r"hf:(?P<name>[^@:]+)(@(?P<config>[^:]+))?(:(?P<split>.+))?")


def read_pairs(where: tuple[str, ...], columns: Columns | None = None, limit: int | None = None) -> list[Pair]:
    """All pairs, or the first `limit`."""
    if limit is not None and limit < 1:
        raise UserError(f"A limit of {limit} pairs leaves nothing to read. Give 1 or more, or none.")
    pairs = list(islice(_pairs(where, columns), limit))
    if not pairs:
        raise UserError(f"{' and '.join(where)}: there are no pairs in it. Give data with at least one.")
    return pairs


def _pairs(where: tuple[str, ...], columns: Columns | None) -> Iterator[Pair]:
    match where:
        case (name,) if name.startswith("builtin:"):
            return _from_builtin(name)
        case (name,) if name.startswith("hf:"):
            return _from_hub(name, columns or NAMED)
        case (name,):
            return _from_table(Path(name).expanduser(), columns)
        case (source, target):
            return _from_aligned(Path(source).expanduser(), Path(target).expanduser())
        case _:
            raise UserError(
                f"Data is one table (train.tsv) or two aligned text files (train.en,train.de), but this was given: {where!r}."
            )


def _from_builtin(where: str) -> Iterator[Pair]:
    name, _, split = where.removeprefix("builtin:").partition("/")
    if name not in BUILTIN:
        raise UserError(f"There is no built-in corpus {name!r}{nearest(name, BUILTIN)}")
    if not split:
        raise UserError(f"{where} lacks a split. Type builtin:{name}/train, or /valid, or /test.")
    return iter(BUILTIN[name](split))


def _from_aligned(source: Path, target: Path) -> Iterator[Pair]:
    for path in (source, target):
        must_be_file(path)
        if _suffix(path) in TABLES:
            raise UserError(
                f"{path} is a table, which holds both sides, but two files were given: {source} and {target}. Give one table "
                "alone, or two text files in which line n of one belongs to line n of the other."
            )
    for left, right in zip_longest(numbered_lines(source), numbered_lines(target)):
        if left is None or right is None:
            counts = [sum(1 for _ in numbered_lines(path)) for path in (source, target)]
            raise UserError(
                f"{source} has {counts[0]:,} lines and {target} has {counts[1]:,}, but line n of one must belong to line n "
                f"of the other. Look for a missing or extra line up to line {min(counts) + 1:,}."
            )
        (number, source_text), (_, target_text) = left, right
        for path, text in ((source, source_text), (target, target_text)):
            _must_have_text(text, f"{path}, line {number}", "this line")
        yield Pair(source_text, target_text)


def _from_table(path: Path, columns: Columns | None) -> Iterator[Pair]:
    must_be_file(path)
    match _suffix(path):
        case ".tsv":
            return _from_rows(path, ((number, line.split("\t")) for number, line in numbered_lines(path)), columns)
        case ".csv":
            return _from_rows(path, _csv_rows(path), columns)
        case ".jsonl" | ".ndjson":
            return _from_json(path, columns or NAMED)
        case _:
            raise UserError(
                f"{path} is one file of plain text, but pairs need two: {path},OTHER with line n of one belonging to line n "
                f"of the other. A file with both sides must be named *{', *'.join(TABLES)}."
            )


def _suffix(path: Path) -> str:
    return Path(path.name.lower().removesuffix(".gz")).suffix


def _csv_rows(path: Path) -> Iterator[Row]:
    """Each row with the number of its first line: a quoted value may go on over several."""
    rows = csv.reader((line + "\n" for _, line in numbered_lines(path)), strict=True)
    while True:
        number = rows.line_num + 1
        try:
            yield number, next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            raise UserError(
                f"{path}, line {number}: this is not CSV ({error}). Close every quote and write a quote inside a quoted value "
                'twice (""), or save the table as .tsv, where quotes mean nothing.'
            ) from error


def _from_rows(path: Path, rows: Iterator[Row], columns: Columns | None) -> Iterator[Pair]:
    start, first = next(rows)
    if columns is None and len(first) != 2:
        raise UserError(
            f"{path}, line {start}: columns found: {len(first)}, expected: 2. Choose two by number, data.columns=0,1, or by the "
            "names in the first row, for instance data.columns=en,de."
        )
    columns = columns or ("0", "1")
    by_name = not all(column.isdecimal() for column in columns)
    header = first if by_name else [str(i) for i in range(len(first))]
    if twice := [name for name in columns if header.count(name) > 1]:
        raise UserError(f"{path}, line {start}: two columns are named {twice[0]!r}. Choose by number: data.columns=0,1.")
    for number, row in rows if by_name else chain([(start, first)], rows):
        if len(row) != len(header):
            raise UserError(
                f"{path}, line {number}: columns found: {len(row)}, expected: {len(header)} as in line {start}. "
                "Mend the line: a separator too many, or one missing."
            )
        yield _pick(dict(zip(header, row)), columns, f"{path}, line {number}")


def _from_json(path: Path, columns: Columns) -> Iterator[Pair]:
    for number, line in numbered_lines(path):
        place = f"{path}, line {number}"
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UserError(f"{place}: this is not JSON ({error}). Write one whole object on each line.") from error
        if not isinstance(record, dict):
            expected = json.dumps(dict.fromkeys(columns, "..."))
            raise UserError(f"{place}: {type(record).__name__} found, object expected. Write lines like {expected}.")
        yield _pick(record, columns, place)


def _from_hub(where: str, columns: Columns) -> Iterator[Pair]:
    parts = HUB.fullmatch(where)
    if parts is None:
        raise UserError(
            f"{where} is not hf:NAME, hf:NAME:SPLIT or hf:NAME@CONFIG:SPLIT. Type, for instance, hf:wmt14@de-en:test."
        )
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise UserError(f'{where} needs the package `datasets`. Type: pip install "regard[data]"') from error
    try:
        rows = load_dataset(parts["name"], parts["config"], split=parts["split"] or "train")
    except Exception as error:  # no network, no such name, no such split, ...: `datasets` raises many things and says which
        raise UserError(
            f"{where} could not be opened: {error}. Check name, configuration and split (hf:NAME@CONFIG:SPLIT) and the network."
        ) from error
    for number, record in enumerate(rows):
        yield _pick(record, columns, f"{where}, row {number}")


def _pick(record: Mapping[str, object], columns: Columns, place: str) -> Pair:
    inner = record.get("translation")
    values = inner if isinstance(inner, Mapping) else record
    return Pair(_text(values, columns[0], place), _text(values, columns[1], place))


def _text(values: Mapping[str, object], column: str, place: str) -> str:
    if column not in values:
        raise UserError(f"{place}: there is no column {column!r}{nearest(column, values)} Choose with data.columns=NAME,NAME.")
    text = values[column]
    if not isinstance(text, str):
        raise UserError(f"{place}: column {column!r} holds {type(text).__name__}, but text is needed. Put it in quotes.")
    _must_have_text(text, place, f"column {column!r}")
    return text


def _must_have_text(text: str, place: str, what: str) -> None:
    if not text.strip():
        raise UserError(f"{place}: {what} is empty, but both sides need text. Fill it in, or take it out on both sides.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UserError(f"{place}: {what} holds half a character (a lone surrogate). Take it out.") from error
