"""Read time series: tables with a row for each time, wide (a column a channel) or long (a column says which series).

What a table may be: CSV or TSV, gzipped or not, with or without dates. Rows out of order are put in order; what cannot be right
is refused: two rows of one time, columns that are not numbers, times that are no dates. Empty cells, and times that are left out,
are refused or filled as `data.missing` says. Dates with time zones count as UTC.

Dims: T times, C channels, E covariates.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import numpy as np

from regard.core.errors import UserError, nearest
from regard.core.files import open_maybe_gzipped
from regard.data.builtin.series import draw_series, is_builtin
from regard.data.series_config import SeriesConfig
from regard.data.sources.files import suffix_of

TIME_NAMES = ("date", "time", "timestamp", "datetime", "ds", "day", "month")
EMPTY = frozenset(("", "nan", "na", "n/a", "null", "none", "-", "?"))
MOST_BYTES = 2**31
SENTINELS = (-9999.0, -999.0)


@dataclass(frozen=True, eq=False)
class Series:
    """One series: values_TC, nan where a cell is empty, what is known in advance, and its times."""

    name: str
    values_TC: np.ndarray
    known_TE: np.ndarray
    dates: np.ndarray | None  # datetime64[s]

    def __len__(self) -> int:
        return len(self.values_TC)


@dataclass(frozen=True, eq=False)
class SeriesTable:
    channels: tuple[str, ...]
    known: tuple[str, ...]
    series: tuple[Series, ...]
    time: str = ""  # the name of the column of dates; empty where there is none
    notes: tuple[str, ...] = field(default=())


def read_series(where: Sequence[str], config: SeriesConfig, *, forecasts: bool = False) -> SeriesTable:
    """Read a table; where it `forecasts`, rows at the end may have covariates alone."""
    if len(where) != 1:
        raise UserError(f"{len(where)} tables were given ({', '.join(where[:3])}); give one, with all series in it.")
    table = _builtin(where[0], config) if is_builtin(where[0]) else _read(Path(where[0]), config)
    found = tuple(_complete(_in_order(one, where[0], config), table, where[0], config, forecasts) for one in table.series)
    if any(len(now) > len(before) for now, before in zip(found, table.series)):
        table = replace(table, notes=(*table.notes, "times that were left out are filled (data.missing)"))
    if config.limit:
        found = tuple(_cut(one, config.limit) for one in found)
    return replace(table, series=found, notes=(*table.notes, *_notes(table)))


def _cut(one: Series, rows: int) -> Series:
    dates = None if one.dates is None else one.dates[:rows]
    return replace(one, values_TC=one.values_TC[:rows], known_TE=one.known_TE[:rows], dates=dates)


def _builtin(where: str, config: SeriesConfig) -> SeriesTable:
    drawn = draw_series(where)
    columns = {**dict(zip(drawn.names, drawn.values_TC.T)), **({"event": drawn.event_T} if drawn.event_T is not None else {})}
    for name in (*config.columns, *config.known):
        if name not in columns:
            raise UserError(f"{where} has no column {name!r}{nearest(name, columns)}")
    channels = config.columns or tuple(name for name in drawn.names if name not in config.known)
    values_TC, known_TE = (_stack([columns[name] for name in names], len(drawn.dates)) for names in (channels, config.known))
    return SeriesTable(channels, config.known, (Series("", values_TC, known_TE, drawn.dates),), "date")


def _stack(columns: Sequence[np.ndarray | None], rows: int) -> np.ndarray:
    return np.stack([np.asarray(column, np.float64) for column in columns], 1) if columns else np.zeros((rows, 0))


# --- the table ----------------------------------------------------------------------------------------------------------------
def _read(path: Path, config: SeriesConfig) -> SeriesTable:
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
    return _table(path, header, dict(zip(header, zip(*rows[1:]))), config, notes)


def _text(path: Path) -> tuple[str, tuple[str, ...]]:
    if suffix_of(path) in (".parquet", ".xlsx", ".xls", ".json", ".jsonl", ".feather", ".npz", ".npy"):
        raise UserError(f"{path}: series are read from CSV and TSV files, .gz or not; write the table as one of these.")
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


def _table(
    path: Path, header: list[str], cells: dict[str, tuple[str, ...]], config: SeriesConfig, notes: tuple[str, ...]
) -> SeriesTable:
    for key, names in (
        ("columns", config.columns),
        ("known", config.known),
        ("series", (config.series,)),
        ("time", (config.time,)),
    ):
        for name in names:
            if name and name not in header and (key, name) != ("time", "none"):
                raise UserError(f"{path} has no column {name!r}, which data.{key} names{nearest(name, header)}")
    time = config.time or next((name for name in header if name.lower() in TIME_NAMES), "")
    time = "" if time == "none" else time
    others = [name for name in header if name not in (time, config.series, *config.known) and name]
    if not config.time and config.columns == () and not time:
        others = [name for name in others if name.lower() not in ("index", "id")]
    if config.time == "none":
        others = [name for name in others if name.lower() not in TIME_NAMES]
    channels = config.columns or tuple(others)
    if not channels:
        raise UserError(f"{path} has no column of numbers beside {', '.join(header)}; add what is to be forecast.")
    columns = {name: _numbers(path, name, cells[name], config, list(channels)) for name in (*channels, *config.known)}
    rows = len(cells[header[0]])
    values_TC, known_TE = (_stack([columns[name] for name in names], rows) for names in (channels, config.known))
    dates = _dates(path, time, cells[time]) if time else None
    if not config.series:
        return SeriesTable(channels, config.known, (Series("", values_TC, known_TE, dates),), time, notes)
    ids, which = np.unique(np.array(cells[config.series]), return_inverse=True)
    parts = [np.flatnonzero(which == number) for number in range(len(ids))]
    found = (Series(str(name), values_TC[at], known_TE[at], None if dates is None else dates[at]) for name, at in zip(ids, parts))
    return SeriesTable(channels, config.known, tuple(found), time, notes)


def _numbers(path: Path, name: str, cells: tuple[str, ...], config: SeriesConfig, channels: list[str]) -> np.ndarray:
    try:
        found = np.array(cells, dtype=np.float64)
    except ValueError:
        found = np.array([_number(path, name, cell, row, config, channels) for row, cell in enumerate(cells, 2)])
    if np.isinf(found).any():
        raise UserError(
            f"{path}, line {int(np.isinf(found).argmax()) + 2:,}: {name} is infinite; write a number, or leave it empty."
        )
    return found


def _number(path: Path, name: str, cell: str, row: int, config: SeriesConfig, channels: list[str]) -> float:
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
        raise UserError(f"{path}, line {row:,}: {name} is {cell!r}, with a decimal comma; set data.decimal=comma.")
    hint = f"data.series={name} if it says which series a row belongs to, or "
    others = [other for other in channels if other != name]
    raise UserError(
        f"{path}, line {row:,}: {name} is {cell[:30]!r}, which is no number; give {hint}data.columns="
        f"{','.join(others[:3]) or 'NAMES'} to leave it out."
    )


def _dates(path: Path, name: str, cells: tuple[str, ...]) -> np.ndarray:
    zoned = 0
    found = np.empty(len(cells), "datetime64[s]")
    for n, cell in enumerate(cells):
        try:
            when = datetime.fromisoformat(cell.strip())
        except ValueError:
            raise UserError(
                f"{path}, line {n + 2:,}: {name} is {cell[:30]!r}, which is no date such as 2024-05-31 or 2024-05-31 "
                f"18:00:00; write "
                "it so, or set data.time=none if the rows are in order."
            ) from None
        zoned += when.tzinfo is not None
        found[n] = np.datetime64(when.astimezone(UTC).replace(tzinfo=None) if when.tzinfo else when, "s")
    if 0 < zoned < len(cells):
        raise UserError(f"{path}: {zoned:,} of {len(cells):,} dates in {name} have a time zone; give all of them one, or none.")
    return found


# --- times ------------------------------------------------------------------------------------------------------------------
def _in_order(one: Series, where: str, config: SeriesConfig) -> Series:
    """Put rows in the order of time, and refuse two of one time."""
    if one.dates is None:
        return one
    order = np.argsort(one.dates, kind="stable")
    one = replace(one, values_TC=one.values_TC[order], known_TE=one.known_TE[order], dates=one.dates[order])
    assert one.dates is not None
    same = np.flatnonzero(np.diff(one.dates) == np.timedelta64(0, "s"))
    if len(same):
        many = " Are these several series? Then set data.series=COLUMN." if not config.series else ""
        raise UserError(
            f"{where}{_of(one)} has two rows of {_told(one.dates[same[0]])} ({len(same):,} such times); keep one row of each "
            f"time, or set data.time=none.{many}"
        )
    return one


def _of(one: Series) -> str:
    return f", series {one.name!r}," if one.name else ""


def _told(date: np.datetime64) -> str:
    return str(date).replace("T", " ").removesuffix(" 00:00:00")


def places(dates: np.ndarray) -> np.ndarray | None:
    """Return the number of steps from the first date to each; None where dates are in no regular steps."""
    months = dates.astype("datetime64[M]")
    in_month = dates - months.astype("datetime64[s]")
    if len(dates) > 2 and (in_month == in_month[0]).all() and np.diff(dates).min() >= np.timedelta64(28, "D"):
        found = (months - months[0]).astype(np.int64)
        step = int(np.gcd.reduce(found))
        return found // step
    gaps = np.diff(dates).astype(np.int64)
    if not len(gaps):
        return np.zeros(len(dates), np.int64)
    sizes, counts = np.unique(gaps, return_counts=True)
    step = int(sizes[counts.argmax()])
    after = (dates - dates[0]).astype(np.int64)
    return after // step if not (after % step).any() else None


def next_dates(dates: np.ndarray, count: int) -> np.ndarray:
    """Return the dates of the next times, in the step of the last two."""
    months = dates.astype("datetime64[M]")
    by_month = len(dates) > 2 and np.diff(dates).min() >= np.timedelta64(28, "D") and len(set(np.diff(months).tolist())) == 1
    steps = np.arange(1, count + 1)
    if by_month:
        within = dates[-1] - months[-1].astype("datetime64[s]")
        return (months[-1] + steps * (months[-1] - months[-2])).astype("datetime64[s]") + within
    gaps, counts = np.unique(np.diff(dates), return_counts=True)
    return dates[-1] + steps * gaps[counts.argmax()]


def _complete(one: Series, table: SeriesTable, where: str, config: SeriesConfig, forecasts: bool) -> Series:
    """Fill times that are left out and empty cells, or refuse them."""
    if len(one) < 2:
        raise UserError(f"{where}{_of(one)} has {len(one)} row; a forecast needs more times than a look-back and a horizon.")
    if one.dates is not None:
        at = places(one.dates)
        if at is None:
            raise UserError(
                f"{where}{_of(one)}: dates are in no regular steps (from {_told(one.dates[0])} on); write a row every "
                f"hour or every day, "
                "or set data.time=none to count rows alone."
            )
        if (gap := np.flatnonzero(np.diff(at) > 1)).size:
            one = _without_gaps(one, at, gap, where, config)
    future = 0
    if forecasts and one.known_TE.shape[1]:
        empty_T = np.isnan(one.values_TC).all(1)
        future = len(one) if empty_T.all() else int(empty_T[::-1].argmin())
    values_TC = one.values_TC.copy()
    values_TC[: len(one) - future] = _filled(values_TC[: len(one) - future], table.channels, one, where, config)
    return replace(one, values_TC=values_TC, known_TE=_filled(one.known_TE, table.known, one, where, config))


def _without_gaps(one: Series, at: np.ndarray, gap: np.ndarray, where: str, config: SeriesConfig) -> Series:
    assert one.dates is not None
    left_out = int(at[-1]) + 1 - len(at)
    if config.missing == "refuse":
        raise UserError(
            f"{where}{_of(one)} leaves out {left_out:,} times, the first after {_told(one.dates[gap[0]])}; set "
            f"data.missing=interpolate or last "
            "to fill them, or data.time=none to count rows alone."
        )
    if left_out > len(at):
        raise UserError(f"{where}{_of(one)} leaves out {left_out:,} times and has {len(at):,}; give a longer step between rows.")
    whole = np.arange(at[-1] + 1)
    values_TC = np.full((len(whole), one.values_TC.shape[1]), np.nan)
    known_TE = np.full((len(whole), one.known_TE.shape[1]), np.nan)
    values_TC[at], known_TE[at] = one.values_TC, one.known_TE
    dates = np.interp(whole, at, one.dates.astype(np.int64)).round().astype(np.int64).astype("datetime64[s]")
    return replace(one, values_TC=values_TC, known_TE=known_TE, dates=dates)


def _filled(x_TC: np.ndarray, names: Sequence[str], one: Series, where: str, config: SeriesConfig) -> np.ndarray:
    empty_TC = np.isnan(x_TC)
    if not empty_TC.any():
        return x_TC
    column = int(empty_TC.any(0).argmax())
    name, empty_T = names[column], empty_TC[:, column]
    if empty_TC.all(0).any():
        raise UserError(
            f"{where}{_of(one)}: {names[int(empty_TC.all(0).argmax())]} is empty in every row; leave it out by data.columns."
        )
    if config.missing == "refuse":
        row = int(empty_T.argmax())
        when = f" at {_told(one.dates[row])}" if one.dates is not None else f" in row {row + 1:,}"
        raise UserError(
            f"{where}{_of(one)}: {name} is empty {int(empty_T.sum()):,} times, first{when}; set "
            f"data.missing=interpolate (between its "
            "neighbours) or last (the value before)."
        )
    times, found = np.arange(len(x_TC)), x_TC.copy()
    for c in range(x_TC.shape[1]):
        given = np.flatnonzero(~empty_TC[:, c])
        if config.missing == "interpolate":
            found[:, c] = np.interp(times, given, x_TC[given, c])
        else:
            found[:, c] = x_TC[given[np.maximum(np.searchsorted(given, times, "right") - 1, 0)], c]
    return found


def _notes(table: SeriesTable) -> tuple[str, ...]:
    """Tell of channels that look like they say something else than numbers."""
    told = []
    for c, name in enumerate(table.channels):
        marked = sum(int(np.isin(one.values_TC[:, c], SENTINELS).sum()) for one in table.series)
        if marked:
            told.append(f"{name} is -9999 or -999 {marked:,} times, which often means that nothing was measured")
    return tuple(islice(told, 3))
