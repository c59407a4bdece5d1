"""Records, each a mapping from column to value, from JSON lines or from the hub; each with its place, for complaints.

Tables as records: TSV is split at tabs and nothing else, CSV may quote; every row with its place, for complaints.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar

from regard.core.errors import UserError, nearest
from regard.data.sources.files import numbered_lines, suffix_of

T = TypeVar("T")
Record = tuple[str, Mapping[str, object]]
HUB = re.compile(r"hf:(?P<name>[^@:]+)(@(?P<config>[^:]+))?(:(?P<split>.+))?")

HALF = re.compile(r"\\u[dD][89a-fA-F]")


def json_records(path: Path, names: Iterable[str], example: str = "") -> Iterator[Record]:
    """Yield the object of each line. Errors show what a line should look like: `example`, or one with these names."""
    example = example or json.dumps(dict.fromkeys(names, "..."))
    for number, line in numbered_lines(path):
        place = f"{path}, line {number}"
        record = parse_record(line, place, "Write one whole object on each line.")
        if not isinstance(record, dict):
            raise UserError(f"{place}: {type(record).__name__} found, object expected. Write lines like {example}.")
        yield place, record


def parse_record(text: str, place: str, cure: str) -> Any:
    """Parse JSON, and refuse half characters in it."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{place}: this is not JSON ({error}). {cure}") from error
    if HALF.search(text):  # two halves may make one character
        refuse_half_characters(json.dumps(found, ensure_ascii=False), f"{place}: a text")
    return found


def hub_records(where: str, classes: bool = False) -> Iterator[Record]:
    """Yield the rows of hf:NAME@CONFIG:SPLIT, where @CONFIG and :SPLIT (train) may be left out; `datasets` caches them.

    With `classes`, a class number becomes the name of its class.
    """
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
    # The class names of every column that holds lists of class numbers, such as the tags of a sentence's words.
    lists = {column: getattr(feature, "feature", None) for column, feature in (getattr(rows, "features", None) or {}).items()}
    named = {column: names for column, inner in lists.items() if (names := getattr(inner, "names", None))}
    single = {c: names for c, f in (getattr(rows, "features", None) or {}).items() if (names := getattr(f, "names", None))}
    for number, record in enumerate(rows):
        renamed = {column: [names[n] if n in range(len(names)) else n for n in record[column]] for column, names in named.items()}
        chosen = {c: names[record[c]] for c, names in single.items() if classes and record[c] in range(len(names))}
        yield f"{where}, row {number}", {**record, **renamed, **chosen}


def at_least_one(found: list[T], where: Sequence[str], what: str) -> list[T]:
    """Return what was found; nothing is refused."""
    if not found:
        raise UserError(f"{' and '.join(where)}: there are no {what} in it. Give data with at least one.")
    return found


def text_of(record: Record, column: str, choose: str) -> str:
    """Return the text in this column; `choose` is what to type to name another."""
    place, values = record
    if column not in values:
        raise UserError(f"{place}: there is no column {column!r}{nearest(column, values)} Choose with {choose}.")
    text = values[column]
    if not isinstance(text, str):
        raise UserError(f"{place}: column {column!r} holds {type(text).__name__}, but text is needed. Put it in quotes.")
    refuse_half_characters(text, f"{place}: column {column!r}")
    return text


def refuse_half_characters(text: str, what: str) -> None:
    """Refuse text with a lone surrogate, which no file and no terminal can hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UserError(f"{what} holds half a character (a lone surrogate). Take it out.") from None


Row = tuple[int, list[str]]  # and the number of its first line
LONGEST = 2**24  # characters of a value; without a limit, a quote that is never closed would take in the rest of any file
WIDEST = 10_000  # columns


def table_rows(path: Path) -> Iterator[Row]:
    tsv_rows = ((number, line.split("\t", WIDEST)) for number, line in numbered_lines(path))
    for number, values in _csv_rows(path) if is_csv(path) else tsv_rows:
        if len(values) > WIDEST:
            raise UserError(
                f"{path}, line {number}: there are more than {WIDEST:,} columns. Is it a table? Check what parts its columns."
            )
        yield number, values


def is_csv(path: Path) -> bool:
    return suffix_of(path) == ".csv"


def table_records(path: Path, rows: Iterator[Row], columns: tuple[str, ...]) -> Iterator[Record]:
    """Yield the records of a table with columns chosen by the names in its first row, or by number if it has none."""
    start, first = next(rows)
    by_name = not all(column.isdecimal() for column in columns)
    header = first if by_name else [str(n) for n in range(len(first))]
    if twice := [name for name in columns if header.count(name) > 1]:
        raise UserError(f"{path}, line {start}: two columns are named {twice[0]!r}. Choose by number: data.columns=0,1.")
    for number, row in rows if by_name else chain([(start, first)], rows):
        if len(row) != len(header):
            raise UserError(
                f"{path}, line {number}: columns found: {len(row)}, expected: {len(header)} as in line {start}. "
                f"Correct the line: a separator too many, or one missing.{separator_hint(path)}"
            )
        yield f"{path}, line {number}", dict(zip(header, row))


def separator_hint(path: Path) -> str:
    """Return the end of an error sentence if columns are separated by semicolons, as some spreadsheets write CSV; else ""."""
    if not is_csv(path):
        return ""
    lines = [line for _, line in islice(numbered_lines(path), 5)]
    try:
        counts = {len(row) for row in csv.reader(lines, delimiter=";")}
    except csv.Error:
        return ""
    return " Its columns look parted by semicolons: save it with commas, or as .tsv." if min(counts) == max(counts) > 1 else ""


def _csv_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a CSV file; a quoted value may span several lines."""
    csv.field_size_limit(LONGEST)
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
                f'twice (""), or save the table as .tsv, where quotes mean nothing.{separator_hint(path)}'
            ) from error
