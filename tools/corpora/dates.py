"""Built-in dates as people write them, each with its ISO date: what attention was first shown to learn letter by letter.

A day is drawn, then a language or custom with its order of day, month and year, then one of its forms, then its case:

    September 27, 1994      9/27/94 (a slash: month first)      the 27th of September 1994      27-Sep-1994
    27. September 1994      27.9.1994 (a point: day first)      le 1er mars 1994                1994年9月27日

Two figures are a year from 1950 to 2049. No day is in two splits, so what is asked in a test was never written out in training.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date, timedelta
from functools import cache
from typing import NamedTuple
from zlib import crc32

from regard.data.sources import Pair
from tools.corpora.meaning import Draw

SEED = 2015
SIZES = {"train": 20_000, "valid": 500, "test": 1_000}
FIRST, DAYS = date(1950, 1, 1), 36_525  # to the end of 2049
ONE_HELD_OUT_IN = 12
CASES: tuple[Callable[[str], str], ...] = (str, str, str.lower, str.upper)


class Custom(NamedTuple):
    """A language, or a habit of many: its names from January and from Monday on, and its forms."""

    months: str
    weekdays: str
    forms: tuple[str, ...]
    first: str = ""  # what the first of a month is called


CUSTOMS = (
    Custom(
        "January|February|March|April|May|June|July|August|September|October|November|December",
        "Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday",
        (
            "{month} {day}, {year}",
            "{weekday}, {month} {day}, {year}",
            "{month:.3} {day}, {year}",
            "{day} {month} {year}",
            "{weekday} {day} {month:.3} {year}",
            "the {nth} of {month} {year}",
            "{month} {nth}, {year}",
            "{day}-{month:.3}-{year}",
            "{number}/{day}/{short:02}",
            "{number}/{day}/{year}",
            "{number:02}/{day:02}/{year}",
        ),
    ),
    Custom(
        "Januar|Februar|März|April|Mai|Juni|Juli|August|September|Oktober|November|Dezember",
        "Montag|Dienstag|Mittwoch|Donnerstag|Freitag|Samstag|Sonntag",
        (
            "{day}. {month} {year}",
            "{weekday}, {day}. {month} {year}",
            "{weekday}, den {day}. {month} {year}",
            "{day}.{number}.{year}",
            "{day}.{number}.{short:02}",
            "{day:02}.{number:02}.{year}",
        ),
    ),
    Custom(
        "janvier|février|mars|avril|mai|juin|juillet|août|septembre|octobre|novembre|décembre",
        "lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche",
        ("{day} {month} {year}", "le {day} {month} {year}", "{weekday} {day} {month} {year}"),
        first="1er",
    ),
    Custom(
        "enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|octubre|noviembre|diciembre",
        "lunes|martes|miércoles|jueves|viernes|sábado|domingo",
        ("{day} de {month} de {year}", "{weekday}, {day} de {month} de {year}"),
    ),
    Custom("|" * 11, "|" * 6, ("{year}年{number}月{day}日", "{year}.{number}.{day}.", "{year}/{number:02}/{day:02}")),
)


def dates(split: str) -> list[Pair]:
    """The pairs of "train", "valid" or "test"."""
    return _splits()[split]


def held_out(day: date) -> bool:
    return crc32(day.isoformat().encode()) % ONE_HELD_OUT_IN == 0


def say(day: date, custom: Custom, form: str) -> str:
    named = custom.first if custom.first and day.day == 1 else day.day
    return form.format(
        day=named,
        nth=f"{day.day}{_ending(day.day)}",
        month=custom.months.split("|")[day.month - 1],
        number=day.month,
        weekday=custom.weekdays.split("|")[day.weekday()],
        year=day.year,
        short=day.year % 100,
    )


def _ending(number: int) -> str:
    if number in (11, 12, 13):
        return "th"
    return {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")


@cache
def _splits() -> dict[str, list[Pair]]:
    found: dict[str, list[Pair]] = {split: [] for split in SIZES}
    owner: dict[str, str] = {}  # of the days that are held out
    for day, pair in _stream():
        asked = "test" if len(found["test"]) < SIZES["test"] else "valid"
        split = owner.setdefault(pair.target, asked) if held_out(day) else "train"
        if len(found[split]) < SIZES[split]:
            found[split].append(pair)
        if all(len(found[split]) == size for split, size in SIZES.items()):
            return found
    raise AssertionError("a stream without end has ended")


def _stream() -> Iterator[tuple[date, Pair]]:
    """Pairs without end and without repetition."""
    draw, said, days = Draw(SEED), set[str](), range(DAYS)
    while True:
        day = FIRST + timedelta(days=draw.pick(days))
        custom = draw.pick(CUSTOMS)
        written = draw.pick(CASES)(say(day, custom, draw.pick(custom.forms)))
        if written not in said:
            said.add(written)
            yield day, Pair(written, day.isoformat())
