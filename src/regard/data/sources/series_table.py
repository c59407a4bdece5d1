"""Read the table of a time series: its header and its cells, from CSV, TSV or parquet, as numbers, dates and series.

Wide tables have a column for each channel; in long ones a column says which series a row belongs to. What cannot be right is
refused with its line: cells that are no numbers, dates that are none, a static column that changes within a series.

Dims: T times, C channels, E covariates, S static columns.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from regard.core.errors import UserError, nearest
from regard.core.files import open_maybe_gzipped
from regard.data.series_config import SeriesConfig
from regard.data.sources.files import suffix_of
from regard.data.sources.parquet import read_parquet

TIME_NAMES = ("date", "time", "timestamp", "datetime", "ds", "day", "month")
EMPTY = frozenset(("", "nan", "na", "n/a", "null", "none", "-", "?"))
MOST_BYTES = 2**31


@dataclass(frozen=True, eq=False)
class Series:
    """One series: values_TC, nan where a cell is empty, what is known in advance, its times, and its static cells."""

    name: str
    values_TC: np.ndarray
    known_TE: np.ndarray
    dates: np.ndarray | None  # datetime64[s]
    static_S: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.values_TC)


@dataclass(frozen=True, eq=False)
class SeriesTable:
    channels: tuple[str, ...]
    known: tuple[str, ...]
    series: tuple[Series, ...]
    time: str = ""  # the name of the column of dates; empty where there is none
    notes: tuple[str, ...] = field(default=())
    static: tuple[str, ...] = ()  # the names of static columns


class Cells(NamedTuple):
    """The columns of a file by name: texts, or numbers and dates where the file has types; and how a row is called."""

    path: Path
    columns: Mapping[str, Sequence[Any] | np.ndarray]
    notes: tuple[str, ...] = ()
    row: str = "line"
    first: int = 2  # the number of the first row

    def place(self, row: int) -> str:
        return f"{self.path}, {self.row} {row + self.first:,}"


def read_table(path: Path, config: SeriesConfig) -> SeriesTable:
    """Read all series of a file, their rows in the order of the file."""
    if suffix_of(path) == ".parquet":
        return _table(Cells(path, read_parquet(path), row="row", first=1), config)
    return _table(_csv(path), config)


def _csv(path: Path) -> Cells:
    text, notes = _text(path)
    first = text.split("\n", 1)[0]
    mark = ";" if first.count(";") > first.count(",") else ","
    if suffix_of(path) == ".tsv" or ("\t" in first and "," not in first):
        mark = "\t"
    rows = list(csv.reader(text.splitlines(), delimiter=mark))
    rows = [row for row in rows if any(map(str.strip, row))]
    if len(rows) < 2:
        raise UserError(f"{path} has {len(rows)} line{'s' * (len(rows) != 1)}; give a header and a row for each time.")
    header = [name.strip() for name in rows[0]]
    if all(_is_number(name) for name in header):
        raise UserError(
            f"{path} begins with numbers, so its columns have no names; write a header, such as date,load, above them."
        )
    if len(set(header)) < len(header):
        twice = next(name for name in header if header.count(name) > 1)
        raise UserError(f"{path} has two columns called {twice!r}; give each a name of its own.")
    for number, row in enumerate(rows[1:], 2):
        if len(row) != len(header):
            raise UserError(
                f"{path}, line {number:,}: {len(row)} cells, and the header has {len(header)}; write as many"
                + (", and numbers with a comma in quotes, or ';' between cells." if mark == "," else ".")
            )
    return Cells(path, dict(zip(header, zip(*rows[1:]))), notes)


def _text(path: Path) -> tuple[str, tuple[str, ...]]:
    if suffix_of(path) in (".xlsx", ".xls", ".json", ".jsonl", ".feather", ".npz", ".npy"):
        raise UserError(
            f"{path}: series are read from CSV and TSV files, .gz or not, and from parquet; write the table as one of these."
        )
    try:
        with open_maybe_gzipped(path) as file:
            content = file.read(MOST_BYTES)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}. Check who may read it.") from error
    if not content.strip():
        raise UserError(f"{path} is empty; give a header and a row for each time.")
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise UserError(f"{path} is UTF-16, but UTF-8 is needed. Type: iconv -f UTF-16 -t UTF-8 {path}")
    if b"\0" in content:
        raise UserError(f"{path} is no text: it has a byte 0. Give a CSV or TSV file.")
    try:
        return content.decode("utf-8-sig"), ()
    except UnicodeDecodeError:
        return content.decode("latin-1"), (f"{path} is not UTF-8; it is read as Latin-1, which numbers do not depend on",)


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", "."))
    except ValueError:
        return False
    return True


def _table(cells: Cells, config: SeriesConfig) -> SeriesTable:
    path, header = cells.path, list(cells.columns)
    named = {"columns": config.columns, "known": config.known, "static": config.static}
    for key, names in {**named, "series": (config.series,), "time": (config.time,)}.items():
        for name in names:
            if name and name not in header and (key, name) != ("time", "none"):
                raise UserError(f"{path} has no column {name!r}, which data.{key} names{nearest(name, header)}")
    time = config.time or next((name for name in header if name.lower() in TIME_NAMES), "")
    time = "" if time == "none" else time
    channels = config.columns or _channels(header, time, config)
    if not channels:
        raise UserError(f"{path} has no column of numbers beside {', '.join(header)}; add what is to be forecast.")
    columns = {name: _numbers(cells, name, config, list(channels)) for name in (*channels, *config.known)}
    rows = len(cells.columns[header[0]])
    values_TC, known_TE = (stack_columns([columns[name] for name in names], rows) for names in (channels, config.known))
    dates = _dates(cells, time) if time else None
    static = [_texts(cells.columns[name]) for name in config.static]
    ids, which = np.unique(_texts(cells.columns[config.series]) if config.series else [""] * rows, return_inverse=True)
    order = np.argsort(which, kind="stable")
    found = []
    for name, at in zip(ids, np.split(order, np.cumsum(np.bincount(which))[:-1])):
        same = tuple(_same(cells, column, texts[at], str(name)) for column, texts in zip(config.static, static))
        found.append(Series(str(name), values_TC[at], known_TE[at], None if dates is None else dates[at], same))
    return SeriesTable(channels, config.known, tuple(found), time, cells.notes, config.static)


def _channels(header: Sequence[str], time: str, config: SeriesConfig) -> tuple[str, ...]:
    """Return the columns that are forecast where none are named."""
    others = [name for name in header if name not in (time, config.series, *config.known, *config.static) and name]
    if not config.time and not time:
        others = [name for name in others if name.lower() not in ("index", "id")]
    if config.time == "none":
        others = [name for name in others if name.lower() not in TIME_NAMES]
    return tuple(others)


def _texts(column: Sequence[Any] | np.ndarray) -> np.ndarray:
    if isinstance(column, np.ndarray) and column.dtype.kind == "f":
        return np.array(["" if np.isnan(number) else f"{number:.15g}" for number in column])
    return np.array([str(cell).strip() for cell in column])


def _same(cells: Cells, column: str, texts: np.ndarray, series: str) -> str:
    """Return the cell that a static column has in every row of a series."""
    if (texts != texts[0]).any():
        raise UserError(
            f"{cells.path}: {column} changes within series {series!r}, from {texts[0]!r} to {texts[texts != texts[0]][0]!r}, and "
            "data.static is for what is constant in a series; name a column that changes by data.known."
        )
    if texts[0].lower() in EMPTY:
        raise UserError(f"{cells.path}: {column} is empty for series {series!r}; write a number or a name, or drop data.static.")
    return str(texts[0])


def _numbers(cells: Cells, name: str, config: SeriesConfig, channels: list[str]) -> np.ndarray:
    column = cells.columns[name]
    try:
        found = np.array(column, dtype=np.float64)
    except (ValueError, TypeError):
        found = np.array([_number(cells, name, str(cell), row, config, channels) for row, cell in enumerate(column)])
    if np.isinf(found).any():
        raise UserError(f"{cells.place(int(np.isinf(found).argmax()))}: {name} is infinite; write a number, or leave it empty.")
    return found


def _number(cells: Cells, name: str, cell: str, row: int, config: SeriesConfig, channels: list[str]) -> float:
    text = cell.strip()
    if text.lower() in EMPTY:
        return float("nan")
    if config.decimal == "comma":
        text = text.replace(".", "").replace(",", ".")
    try:
        return float(text)
    except ValueError:
        pass
    if config.decimal == "point" and _is_number(text):
        raise UserError(f"{cells.place(row)}: {name} is {cell!r}, with a decimal comma; set data.decimal=comma.")
    hint = f"data.series={name} if it says which series a row belongs to, or "
    others = [other for other in channels if other != name]
    raise UserError(
        f"{cells.place(row)}: {name} is {cell[:30]!r}, which is no number; give {hint}data.columns="
        f"{','.join(others[:3]) or 'NAMES'} to leave it out."
    )


def _dates(cells: Cells, name: str) -> np.ndarray:
    column = cells.columns[name]
    if isinstance(column, np.ndarray) and column.dtype.kind == "M":
        if np.isnat(column).any():
            raise UserError(
                f"{cells.place(int(np.isnat(column).argmax()))}: {name} is empty; write a date, or set data.time=none."
            )
        return column
    zoned = 0
    found = np.empty(len(column), "datetime64[s]")
    for n, cell in enumerate(column):
        try:
            when = datetime.fromisoformat(str(cell).strip())
        except ValueError:
            raise UserError(
                f"{cells.place(n)}: {name} is {str(cell)[:30]!r}, which is no date such as 2024-05-31 or 2024-05-31 18:00:00; "
                "write it so, or set data.time=none if the rows are in order."
            ) from None
        zoned += when.tzinfo is not None
        found[n] = np.datetime64(when.astimezone(UTC).replace(tzinfo=None) if when.tzinfo else when, "s")
    if 0 < zoned < len(column):
        raise UserError(
            f"{cells.path}: {zoned:,} of {len(column):,} dates in {name} have a time zone; give all of them one, or none."
        )
    return found


def stack_columns(columns: Sequence[np.ndarray | None], rows: int) -> np.ndarray:
    """Return the columns side by side; of none, an array with these rows and no column."""
    return np.stack([np.asarray(column, np.float64) for column in columns], 1) if columns else np.zeros((rows, 0))
