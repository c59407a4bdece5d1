"""The columns of a labelled table that are read: those that were asked for, or those that its header names for sure.

    data.columns=TEXT,LABEL      asked for, by the names in the first row, or by number from 0
    Review text,sentiment,id     a header that is understood (see `columns`): these are taken, and it is said
    no header                    two columns are text and label, three are two texts and their label

What is not sure is refused, with a choice that can be typed as it stands.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from regard.core.errors import UserError
from regard.data.sources.columns import (
    SAMPLE,
    Choice,
    Rows,
    columns_setting,
    is_header,
    is_header_of_texts,
    is_name,
    is_number,
    join_names,
    labelled_columns,
    numbers_rows,
    role,
    source_column,
    suggest_columns,
    text_columns,
)
from regard.data.sources.records import Record, separator_hint, table_rows

NAMED = ("text", "label")
LISTED = "sentences"  # the column that holds a text as a list
OR_LISTED = (f"text|{LISTED}", "label")
SHOWN = 8  # columns of a complaint


class ColumnChoice(NamedTuple):
    columns: tuple[str, ...]  # names or numbers; the label's is the last
    called: tuple[str, ...]  # what the file calls them: the same, but for numbers under a header
    others: tuple[str, ...] = ()  # that are not read
    guessed: bool = False  # by the header
    headed: bool = False  # is there a header above columns that are chosen by number?

    def describe(self, where: str, names: str) -> str:
        """Say which columns were chosen without being asked for, and how to choose others; `names` is what named them."""
        *texts, label = self.called
        pair = "texts" if len(texts) > 1 else "text"
        unread = f"; not read: {', '.join(map(repr, self.others))}" if self.others else ""
        others = "TEXT,SECOND,LABEL" if len(texts) > 1 else "TEXT,LABEL"
        return f"{where}: {pair} {join_names(texts)}, label {label!r}, by its {names}{unread}. For others: data.columns={others}"


def in_table(path: Path, columns: tuple[str, ...]) -> ColumnChoice:
    rows = table_rows(path)
    start, first = next(rows)
    below, place = [row for _, row in islice(rows, SAMPLE)], f"{path}, line {start}"
    guess = labelled_columns(first)
    headed = bool(guess.columns) and is_header(first, below, guess.columns)
    if not columns:
        columns = guess.columns if headed else _numbers(place, first, below, guess, separator_hint(path))
        return _checked(place, first, below, columns, guessed=headed)
    return _checked(place, first, below, columns, headed=headed and all(column.isdecimal() for column in columns))


def in_records(place: str, records: Iterable[Record], columns: tuple[str, ...]) -> ColumnChoice:
    """Choose the columns of records that name them themselves, such as JSON lines."""
    found = [values for _, values in islice(records, SAMPLE)]
    names = [name for name, value in found[0].items() if isinstance(value, str | int | float)] if found else []
    rows = [[str(values.get(name, "")) for name in names] for values in found]
    if columns:
        return _checked(place, names, rows, columns, named=True)
    if not found or (NAMED[1] in found[0] and {NAMED[0], LISTED} & set(found[0])):
        return ColumnChoice(OR_LISTED, OR_LISTED)
    guess = labelled_columns(names)
    if not guess.columns:
        raise _unsure(place, "the keys", names, rows, guess)
    return _checked(place, names, rows, guess.columns, guessed=True, named=True)


class Texts(NamedTuple):
    """The text columns of a table that needs no labels."""

    columns: tuple[str, ...]  # names or numbers
    names: tuple[str, ...] = ()  # of all columns; none: the table has no header
    guessed: bool = False

    @property
    def headed(self) -> bool:
        """Return True if there is a header above columns that are chosen by number."""
        return bool(self.names) and all(column.isdecimal() for column in self.columns)


def texts_in_table(path: Path, columns: tuple[str, ...], texts: int) -> Texts:
    """Choose the text columns of a table, `texts` to a row (0: as many as its header has); `columns`: those asked for."""
    rows = table_rows(path)
    start, first = next(rows)
    below, place = [row for _, row in islice(rows, SAMPLE)], f"{path}, line {start}"
    guess = text_columns(first).columns or source_column(first)
    sure = labelled_columns(first).columns or guess
    headed = bool(guess) and (is_header_of_texts(first, below, guess) or (sure != guess and is_header(first, below, sure)))
    names = tuple(first) if headed else ()
    if columns:
        by_number = all(column.isdecimal() for column in columns)
        return Texts(columns, names if by_number else tuple(first))
    if headed and len(guess) == (texts or len(guess)):
        return Texts(guess, names, guessed=True)
    count, numbers = texts or 1, tuple(map(str, range(len(first))))
    headed = headed or (len(first) > 1 and bool(named := _names(first)) and is_header(first, below, named))
    if not headed and len(first) in (count, count + 1):
        _must_be_texts_first(place, [first, *below], numbers, count)
        return Texts(numbers[:count])
    shown = ", ".join(value[:20] for value in first[:SHOWN])
    header, given = (first, below) if headed else (numbers, [first, *below])
    # A label that is not needed may have any name.
    advised = suggest_columns(header, given, count) or suggest_columns([*header, "label"], [[*row, ""] for row in given], count)
    setting = columns_setting(advised or (*("TEXT", "SECOND")[:count], "LABEL"))
    raise UserError(
        f"{place}: columns found: {len(first)} ({shown}), expected: {count}, or one more for a label. Type the names of their "
        f"columns, with one for the label behind them, such as {setting}."
        f"{separator_hint(path)}"
    )


def _must_be_texts_first(place: str, rows: Rows, numbers: tuple[str, ...], count: int) -> None:
    """Refuse a first column that holds labels or row numbers instead of texts."""
    whole = [row for row in rows if len(row) == len(numbers)]
    front, last = ([row[column].strip() for row in whole] for column in (0, -1))
    counted = len(numbers) > 1 and numbers_rows("0", front)
    if counted or (len(numbers) > count and _few(front) and not _few(last)):
        what = "numbers the rows" if counted else f"has {len(set(front)):,} values in {len(front):,} rows, as labels do"
        advised = columns_setting((*numbers[1:], numbers[0]))
        raise UserError(f"{place}: column '0' {what}, and is no text. If the texts come behind it, type {advised}.")


def _numbers(place: str, first: Sequence[str], below: Rows, guess: Choice, otherwise: str) -> tuple[str, ...]:
    """Number the columns of a table without a known header; refused if the first row is a header or says too little."""
    names = _names(first)
    if names and is_header(first, below, names) and len(first) > 1:
        raise _unsure(place, "a header", first, below, guess)
    numbers = tuple(map(str, range(len(first))))
    rows = [first, *below]
    if len(first) not in (2, 3):
        advised = suggest_columns(numbers, rows)
        cure = f"For instance: {columns_setting(advised)}" if advised else "Write a text, a tab and its label on each line"
        shown = ", ".join(value[:20] for value in first[:SHOWN])
        raise UserError(
            f"{place}: columns found: {len(first)} ({shown}), expected: text and label, or two texts and their label. Choose by "
            f"number, data.columns=TEXT,LABEL, or by the names in the first row. {cure}.{otherwise}"
        )
    _must_have_no_header(place, first, below, numbers)
    return numbers


def _must_have_no_header(place: str, first: Sequence[str], below: Rows, numbers: tuple[str, ...]) -> None:
    """Refuse a first row whose label occurs nowhere else while other labels repeat or are numbers: it is a header."""
    whole = [row for row in below if len(row) == len(first)]
    last, front = ([row[column].strip() for row in whole] for column in (-1, 0))
    swapped = not _few(last) and _few(front) and not all(map(is_number, last))
    labels, name = (front, first[0].strip()) if swapped else (last, first[-1].strip())
    different = set(labels)
    alike = len(different) < len(labels) or all(map(is_number, different))
    if len(different) > 1 and name not in different and not is_number(name) and alike:
        by_number = ",".join((*numbers[1:], numbers[0]) if swapped else numbers)
        advised = suggest_columns(
            first, below, sum(not numbers_rows(name, [row[n] for row in whole]) for n, name in enumerate(first)) - 1
        )
        raise UserError(
            f"{place} looks like a header: its label {name[:40]!r} is nowhere else. Choose by its names, "
            f"{columns_setting(advised or first)}; or, if it is an example, by numbers, data.columns={by_number}."
        )
    if swapped:
        raise UserError(
            f"{place}: {len({first[-1], *last}):,} labels for {len(last) + 1:,} texts, such as {first[-1][:40]!r}; are the "
            f"columns swapped? If the label comes first, type {columns_setting((*numbers[1:], numbers[0]))}."
        )


def _checked(
    place: str,
    first: Sequence[str],
    below: Rows,
    columns: tuple[str, ...],
    *,
    guessed: bool = False,
    headed: bool = False,
    named: bool = False,
) -> ColumnChoice:
    """Return the choice; a text column that numbers the rows is refused."""
    by_number = not named and all(column.isdecimal() for column in columns)
    header = [str(n) for n in range(len(first))] if by_number else list(first)
    rows = below if headed or not by_number else [first, *below]
    places = [header.index(column) if column in header else None for column in columns]
    called = tuple(column if n is None or not headed else first[n] for column, n in zip(columns, places))
    for column, name, n in zip(columns[:-1], called, places):
        if n is not None and numbers_rows(name, [row[n] for row in rows if len(row) == len(header)]):
            others = tuple(other for other in columns if other != column)
            pair = f"each example would be a PAIR of texts, {join_names(called[:-1])}" if len(columns) > 2 else "it is no text"
            advised = others if len(others) > 1 else suggest_columns(header, rows)
            cure = f"For the text alone, type {columns_setting(advised)}." if advised else "Choose with data.columns=TEXT,LABEL."
            raise UserError(f"{place}: column {name!r} numbers the rows, and {pair}. {cure}")
    taken = set(places)
    others = tuple((first if headed else header)[n] for n in range(len(first)) if n not in taken)
    return ColumnChoice(columns, called, others, guessed, headed)


def _unsure(place: str, what: str, names: Sequence[str], rows: Rows, guess: Choice) -> UserError:
    advised, pair = suggest_columns(names, rows), suggest_columns(names, rows, texts=2)
    shown = f"{', '.join(name[:20] for name in names[:SHOWN])}{', ...' if len(names) > SHOWN else ''}"
    if not advised:
        return UserError(f"{place} has {what} ({shown}), and {guess.doubt}. Choose with data.columns=TEXT,LABEL.")
    both = sum(role(name) == "text" for name in names) > 1
    or_both = f"; for both as a PAIR of texts, {columns_setting(pair)}" if pair and both else ""
    return UserError(
        f"{place} has {what} ({shown}), but {guess.doubt}. Choose, for instance {columns_setting(advised)}{or_both}."
    )


def _names(first: Sequence[str]) -> list[str]:
    return [name for name in first if is_name(name)]


def _few(values: Sequence[str]) -> bool:
    return len(set(values)) <= max(10, len(values) // 2)
