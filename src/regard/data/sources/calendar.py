"""Calendar features of dates, which are known for every future: where a time stands in its hour, day, week, month or year.

Each is two numbers, the sine and the cosine of its angle on a circle, so that 23:00 is beside 0:00 and December beside January.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regard.data.series_config import Calendar


def calendar_names(kinds: Sequence[Calendar]) -> tuple[str, ...]:
    """Return the names of the columns that `calendar_of` makes."""
    return tuple(f"{kind} {part}" for kind in kinds for part in ("sin", "cos"))


def calendar_of(dates: np.ndarray, kinds: Sequence[Calendar]) -> np.ndarray:
    """Return features_TE of dates, two columns a kind."""
    turns = [_turn(dates.astype("datetime64[s]"), kind) for kind in kinds]
    return np.stack([part(2 * np.pi * turn) for turn in turns for part in (np.sin, np.cos)], 1)


def _turn(dates: np.ndarray, kind: Calendar) -> np.ndarray:
    """Return the share of a cycle that has passed at each date, from 0 to below 1."""
    days, months, years = (dates.astype(f"datetime64[{unit}]") for unit in "DMY")
    seconds = (dates - days).astype(np.int64)
    if kind == "minute":
        return seconds // 60 % 60 / 60
    if kind == "hour":
        return seconds // 3600 / 24
    if kind == "weekday":
        return (days.astype(np.int64) + 3) % 7 / 7  # day 0, 1 January 1970, was a Thursday; Monday is 0
    if kind == "month":
        return (months - years.astype("datetime64[M]")).astype(np.int64) / 12
    first, after = (months, months + 1) if kind == "monthday" else (years, years + 1)
    begin, end = first.astype("datetime64[D]"), after.astype("datetime64[D]")
    return (days - begin).astype(np.int64) / (end - begin).astype(np.int64)
