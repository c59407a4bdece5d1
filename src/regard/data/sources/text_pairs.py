"""Read inputs with the texts to write for them, from tables, JSON lines, the hub or built-in corpora.

    "train.tsv" "train.csv"         two columns, or those that the header names: input and target, article and summary, ...
    "train.jsonl"                   an object a line (.ndjson too); the target may be a list of texts that are equally right
    "hf:NAME@CONFIG:SPLIT"          `datasets` opens NAME
    "builtin:reports/train"         needs no network; also those of other tasks, whose label or number is the target

A list of targets, and the column `references`, are more texts that an output may equal; the first target is learned. Every file
may be gzipped. A pair of texts with a label reads as in T5: "sentence1: ... sentence2: ...".
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from regard.core.errors import UserError
from regard.data.builtin import read_builtin
from regard.data.sources.columns import columns_setting, join_names, pair_columns
from regard.data.sources.files import must_be_file
from regard.data.sources.parallel import header_sides
from regard.data.sources.records import Record, hub_records, json_records, separator_hint, table_records, table_rows, text_of

Columns = tuple[str, ...]  # input and target
BUILTIN = ("reports", "english-french", "dates", "remarks", "reviews", "inference", "similarity")
TABLES, JSON_LINES = (".tsv", ".csv"), (".jsonl", ".ndjson")
CHOOSE = "data.columns=INPUT,TARGET"
EXAMPLE = json.dumps({"input": "...", "target": "..."})
SHOWN = 8  # columns of a complaint


class TextPair(NamedTuple):
    """An input, and the texts that are right for it; the first of them is learned."""

    input: str
    targets: tuple[str, ...]
    place: str = ""  # for complaints


def read_text_pairs(where: str, columns: Columns = (), references: str = "", limit: int | None = None) -> list[TextPair]:
    """Read the pairs of one file, or the first `limit`."""
    pairs = list(islice(_pairs(where, columns, references), limit))
    if not pairs:
        raise UserError(f"{where}: there are no pairs of texts in it. Give data with at least one.")
    return pairs


def _pairs(where: str, columns: Columns, references: str) -> Iterator[TextPair]:
    if where.startswith("builtin:"):
        return (_of_row([str(cell) for cell in row]) for row in read_builtin(where, BUILTIN, "texts with a text to write"))
    if where.startswith("hf:"):
        return _from_records(where, hub_records(where), columns, references)
    path = Path(where).expanduser()
    must_be_file(path)
    suffix = Path(path.name.lower().removesuffix(".gz")).suffix
    if suffix in JSON_LINES:
        return _from_records(str(path), json_records(path, EXAMPLE), columns, references)
    if suffix in TABLES:
        return _from_table(path, columns, references)
    raise UserError(
        f"{path} is no table: a file of inputs and targets must be named *{', *'.join(TABLES + JSON_LINES)}. Write an input, a "
        "tab and its target on each line of a .tsv."
    )


def _of_row(row: list[str]) -> TextPair:
    *texts, target = row
    return TextPair(
        texts[0] if len(texts) == 1 else " ".join(f"sentence{n}: {text}" for n, text in enumerate(texts, 1)), (target,)
    )


def _from_records(name: str, records: Iterator[Record], columns: Columns, references: str) -> Iterator[TextPair]:
    first = next(records, None)
    if first is None:
        return
    chosen = columns or _named(first, name)
    for record in chain([first], records):
        yield _pick(record, chosen, references)


def _named(record: Record, name: str) -> Columns:
    """Return input and target by the keys of the first record."""
    place, values = record
    keys = [key for key, value in values.items() if isinstance(value, str | list)]
    found = pair_columns(keys).columns
    if found:
        return found
    if len(keys) == 2 and isinstance(values[keys[0]], str):
        return tuple(keys)
    shown = join_names([key[:20] for key in keys[:SHOWN]]) or "none"
    raise UserError(
        f"{place}: which keys are input and target cannot be told from their names (texts: {shown}). Choose with {CHOOSE}, such "
        f"as {columns_setting(keys[:2] if len(keys) > 1 else ('input', 'target'))}."
    )


def _from_table(path: Path, columns: Columns, references: str) -> Iterator[TextPair]:
    chosen = columns or header_sides(path) or _two(path)
    if references and all(column.isdecimal() for column in chosen) != references.isdecimal():
        raise UserError(
            f"{path}: data.references={references} and the columns {join_names(chosen)} must all be names, or all numbers."
        )
    for record in table_records(path, table_rows(path), (*chosen, *([references] if references else []))):
        yield _pick(record, chosen, references)


def _two(path: Path) -> Columns:
    start, first = next(table_rows(path))
    if len(first) != 2:
        shown = ", ".join(cell[:20] for cell in first[:SHOWN])
        raise UserError(
            f"{path}, line {start}: columns found: {len(first)} ({shown}), expected: input and target. Choose two by number, "
            f"data.columns=0,1, or by the names in the first row.{separator_hint(path)}"
        )
    return ("0", "1")


def _pick(record: Record, columns: Columns, references: str) -> TextPair:
    place, source = record[0], text_of(record, columns[0], CHOOSE)
    if not source.strip():
        raise UserError(f"{place}: column {columns[0]!r} is empty, but an input needs text. Fill it in, or take the line out.")
    targets = _texts(record, columns[1], CHOOSE)
    more = _texts(record, references, "data.references=NAME") if references and _has(record, references) else ()
    if not targets or not all(text.strip() for text in (*targets, *more)):
        column = references if targets and all(text.strip() for text in targets) else columns[1]
        raise UserError(f"{place}: column {column!r} is empty, but a target needs text. Fill it in, or take the line out.")
    return TextPair(source, (*targets, *more), place)


def _has(record: Record, column: str) -> bool:
    """Return False where this one line has no more references; a column that no line has is refused by `text_of`."""
    return column not in record[1] or record[1][column] not in (None, "", [])


def _texts(record: Record, column: str, choose: str) -> tuple[str, ...]:
    """Return the texts of a column: one, several, or a number as it is written."""
    place, values = record
    value = values.get(column)
    if isinstance(value, list):
        return tuple(text_of((place, {column: text}), column, choose) for text in value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return (str(value),)
    return (text_of(record, column, choose),)


def describe_columns(where: str, columns: Columns) -> list[str]:
    """Say which columns were chosen of a file whose columns were not given."""
    if columns or where.startswith(("builtin:", "hf:")):
        return []
    path = Path(where).expanduser()
    suffix = Path(path.name.lower().removesuffix(".gz")).suffix
    found: Mapping[int, str] | Columns | None
    if suffix in JSON_LINES:
        first = next(json_records(path, EXAMPLE), None)
        found = _named(first, where) if first else None
    else:
        found = header_sides(path)
    return [f"{path}: input {found[0]!r}, target {found[1]!r}, by its names. For others: {CHOOSE}"] if found else []
