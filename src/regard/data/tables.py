"""Tables as records: TSV is split at tabs and nothing else, CSV may quote; every row with its place, for complaints."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path

from regard.data.files import numbered_lines
from regard.data.records import Record
from regard.errors import UserError

Row = tuple[int, list[str]]  # and the number of its first line
LONGEST = 2**24  # characters of a value; without a limit, a quote that is never closed would take in the rest of any file
WIDEST = 10_000  # columns


def table_rows(path: Path) -> Iterator[Row]:
    for number, values in _csv_rows(path) if is_csv(path) else _tsv_rows(path):
        if len(values) > WIDEST:
            raise UserError(
                f"{path}, line {number}: there are more than {WIDEST:,} columns. Is it a table? Check what parts its columns."
            )
        yield number, values


def _tsv_rows(path: Path) -> Iterator[Row]:
    return ((number, line.split("\t", WIDEST)) for number, line in numbered_lines(path))


def is_csv(path: Path) -> bool:
    return path.name.lower().removesuffix(".gz").endswith(".csv")


def table_records(path: Path, rows: Iterator[Row], columns: tuple[str, ...]) -> Iterator[Record]:
    """Of a table whose columns are chosen by the names in its first row; or by numbers ("0", "1"), and there is no such row."""
    start, first = next(rows)
    by_name = not all(column.isdecimal() for column in columns)
    header = first if by_name else [str(n) for n in range(len(first))]
    if twice := [name for name in columns if header.count(name) > 1]:
        raise UserError(f"{path}, line {start}: two columns are named {twice[0]!r}. Choose by number: data.columns=0,1.")
    for number, row in rows if by_name else chain([(start, first)], rows):
        if len(row) != len(header):
            raise UserError(
                f"{path}, line {number}: columns found: {len(row)}, expected: {len(header)} as in line {start}. "
                f"Mend the line: a separator too many, or one missing.{parted_otherwise(path)}"
            )
        yield f"{path}, line {number}", dict(zip(header, row))


def parted_otherwise(path: Path) -> str:
    """What a complaint ends with where columns are parted by semicolons, as spreadsheets of many countries write CSV; else ""."""
    if not is_csv(path):
        return ""
    lines = [line for _, line in islice(numbered_lines(path), 5)]
    try:
        counts = {len(row) for row in csv.reader(lines, delimiter=";")}
    except csv.Error:
        return ""
    return " Its columns look parted by semicolons: save it with commas, or as .tsv." if min(counts) == max(counts) > 1 else ""


def _csv_rows(path: Path) -> Iterator[Row]:
    """A quoted value may go on over several lines."""
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
                f'twice (""), or save the table as .tsv, where quotes mean nothing.{parted_otherwise(path)}'
            ) from error
