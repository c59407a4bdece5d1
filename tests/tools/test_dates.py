"""The built-in dates: the same on every machine, splits that share no day, and ISO dates that a second reader agrees with."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from datetime import date

import pytest

from regard.data.sources.parallel import read_pairs
from tools.corpora.dates import CUSTOMS, dates, say

SIZES = {"train": 20_000, "valid": 500, "test": 1_000}
ALL = {split: dates(split) for split in SIZES}
FINGERPRINT = "c170b5b42c700155853c92387434df7db592468618ad28759a2c8300f1845547"
MONTHS = """
january february march april may june july august september october november december
januar februar marz april mai juni juli august september oktober november dezember
janvier fevrier mars avril mai juin juillet aout septembre octobre novembre decembre
enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre
jan feb mar apr may jun jul aug sep oct nov dec
"""
DAYS = """
monday montag lundi lunes tuesday dienstag mardi martes wednesday mittwoch mercredi miercoles thursday donnerstag jeudi jueves
friday freitag vendredi viernes saturday samstag samedi sabado sunday sonntag dimanche domingo
"""
NUMBERS = {name: 1 + n % 12 for n, name in enumerate(MONTHS.split())}
WEEKDAYS = {name: n // 4 for n, name in enumerate(DAYS.split())}


def plain(text: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFD", text.lower()) if not unicodedata.combining(c))


def read(text: str) -> date:
    """By the characters alone, knowing nothing of how it was written; a weekday that is wrong is an error."""
    words = re.findall(r"[a-z]+|\d+", plain(text))
    numbers = [int(word) for word in words if word.isdigit()]
    months = [NUMBERS[word] for word in words if word in NUMBERS]
    if months:
        day, year = numbers
        found = date(year, months[0], day)
    elif text[:4].isdigit():
        found = date(*numbers)
    else:
        first, second, year = numbers
        year += 0 if year > 99 else 1900 if year >= 50 else 2000
        found = date(year, second, first) if "." in text else date(year, first, second)
    assert all(WEEKDAYS[word] == found.weekday() for word in words if word in WEEKDAYS), text
    return found


def test_the_dates_are_those_recorded() -> None:
    lines = [f"{pair.source}\t{pair.target}\n" for split in SIZES for pair in ALL[split]]
    assert hashlib.sha256("".join(lines).encode()).hexdigest() == FINGERPRINT
    assert {split: len(found) for split, found in ALL.items()} == SIZES


def test_a_second_reader_agrees_with_every_date() -> None:
    for found in ALL.values():
        for pair in found:
            assert read(pair.source).isoformat() == pair.target, pair


def test_no_day_is_in_two_splits_and_nothing_is_written_twice() -> None:
    days = {split: {pair.target for pair in found} for split, found in ALL.items()}
    for one, other in (("train", "valid"), ("train", "test"), ("valid", "test")):
        assert not days[one] & days[other]
    sources = [pair.source for found in ALL.values() for pair in found]
    assert len(set(sources)) == len(sources)


def test_every_form_is_asked_and_learned() -> None:
    for split in ("train", "test"):
        written = {pair.source.lower() for pair in ALL[split]}
        days = [date.fromisoformat(pair.target) for pair in ALL[split]]
        for custom in CUSTOMS:
            for form in custom.forms:
                assert any(say(day, custom, form).lower() in written for day in days), form


@pytest.mark.parametrize(
    ("day", "nth"), [(1, "1st"), (2, "2nd"), (3, "3rd"), (11, "11th"), (13, "13th"), (22, "22nd"), (30, "30th")]
)
def test_english_counts_days_as_people_do(day: int, nth: str) -> None:
    assert say(date(1994, 9, day), CUSTOMS[0], "the {nth} of {month} {year}") == f"the {nth} of September 1994"


def test_the_first_of_a_french_month_has_a_name() -> None:
    assert say(date(1994, 3, 1), CUSTOMS[2], "le {day} {month} {year}") == "le 1er mars 1994"


def test_they_are_read_as_pairs() -> None:
    assert read_pairs(("builtin:dates/valid",)) == ALL["valid"]
