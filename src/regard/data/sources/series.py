"""Read time series: tables with a row for each time, wide (a column a channel) or long (a column says which series).

What a table may be: CSV, TSV or parquet, with or without dates. Rows out of order are put in order; what cannot be right is
refused: two rows of one time, columns that are not numbers, times that are no dates. Empty cells, and times that are left out,
are refused or filled as `data.missing` says. Dates with time zones count as UTC. What `data.calendar` names is computed from the
dates and stands behind the columns that are known in advance.

Dims: T times, C channels, E covariates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np

from regard.core.errors import UserError, nearest
from regard.data.builtin.series import draw_series, is_builtin
from regard.data.series_config import SeriesConfig
from regard.data.sources.calendar import calendar_names, calendar_of
from regard.data.sources.series_table import Series, SeriesTable, read_table, stack_columns

SENTINELS = (-9999.0, -999.0)


def read_series(where: Sequence[str], config: SeriesConfig, *, forecasts: bool = False) -> SeriesTable:
    """Read a table; where it `forecasts`, rows at the end may have covariates alone."""
    if len(where) != 1:
        raise UserError(f"{len(where)} tables were given ({', '.join(where[:3])}); give one, with all series in it.")
    table = _builtin(where[0], config) if is_builtin(where[0]) else read_table(Path(where[0]), config)
    found = tuple(_complete(_in_order(one, where[0], config), table, where[0], config, forecasts) for one in table.series)
    if any(len(now) > len(before) for now, before in zip(found, table.series)):
        table = replace(table, notes=(*table.notes, "times that were left out are filled (data.missing)"))
    if config.limit:
        found = tuple(_cut(one, config.limit) for one in found)
    if config.calendar:
        found = tuple(_with_calendar(one, where[0], config) for one in found)
        table = replace(table, known=(*table.known, *calendar_names(config.calendar)))
    return replace(table, series=found, notes=(*table.notes, *_notes(table)))


def _with_calendar(one: Series, where: str, config: SeriesConfig) -> Series:
    if one.dates is None:
        raise UserError(
            f"data.calendar={','.join(config.calendar)} is computed from dates, and {where} is read without any; name their "
            "column by data.time, or leave data.calendar out."
        )
    return replace(one, known_TE=np.concatenate([one.known_TE, calendar_of(one.dates, config.calendar)], 1))


def _cut(one: Series, rows: int) -> Series:
    dates = None if one.dates is None else one.dates[:rows]
    return replace(one, values_TC=one.values_TC[:rows], known_TE=one.known_TE[:rows], dates=dates)


def _builtin(where: str, config: SeriesConfig) -> SeriesTable:
    drawn = draw_series(where)
    if config.static:
        raise UserError(f"{where} is one series, and data.static={config.static[0]} tells several apart; leave it out.")
    columns = {**dict(zip(drawn.names, drawn.values_TC.T)), **({"event": drawn.event_T} if drawn.event_T is not None else {})}
    for name in (*config.columns, *config.known):
        if name not in columns:
            raise UserError(f"{where} has no column {name!r}{nearest(name, columns)}")
    channels = config.columns or tuple(name for name in drawn.names if name not in config.known)
    values_TC, known_TE = (
        stack_columns([columns[name] for name in names], len(drawn.dates)) for names in (channels, config.known)
    )
    return SeriesTable(channels, config.known, (Series("", values_TC, known_TE, drawn.dates),), "date")


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
