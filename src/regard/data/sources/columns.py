"""Guess the columns of a table: by the names in its first row, or, for suggestions, by the values below them.

A name is understood by its words, whatever their case: `Review text` and `reviewText` are texts, `review_score` is a label and
`review_id` neither. A choice is sure where the names leave one reading only; else the caller refuses the table and suggests one.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import isfinite
from statistics import fmean
from typing import Literal, NamedTuple

Role = Literal["text", "label", "id"]
Rows = Sequence[Sequence[str]]


def words(name: str) -> list[str]:
    """Split a column name into words: `reviewText`, `review_text` and `Review text 1` all give review and text."""
    return re.findall(r"[^\W\d_]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower())


TEXTS = frozenset(
    str.split(
        "text texts sentence sentences review content comment tweet message body document post question utterance title headline "
        "description phrase passage string query email article summary abstract premise hypothesis"
    )
)
LABELS = frozenset(
    str.split(
        "label labels sentiment class category target score rating stars polarity quality similarity relatedness duplicate gold "
        "intent emotion topic judgment grade acceptability entailment"
    )
)
IDS = frozenset(str.split("id ids idx index guid uid uuid key nr no number row qid pairid promptid"))
FIRST_OF_LABELS = ("gold_label", "label")  # what counts where several columns could be the label
TOGETHER = (
    ("premise", "hypothesis"),
    ("question", "sentence"),
    ("question", "passage"),
    ("question", "context"),
    ("question", "answer"),
    ("query", "document"),
    ("query", "passage"),
    ("text", "second"),
    ("text", "pair"),
)
SIDES = (
    ("source", "target"),
    ("src", "tgt"),
    ("src", "trg"),
    ("input", "output"),
    ("article", "summary"),
    ("document", "summary"),
    ("text", "summary"),
    ("question", "answer"),
)
LANGUAGES = frozenset(
    str.split(
        "ar bg ca cs da de el en eo es et eu fa fi fr ga he hi hr hu is it ja ko lt lv mk nl pl pt ro ru sk sl sq sr sv ta th tr "
        "uk ur vi zh arabic catalan chinese croatian czech danish dutch english estonian finnish french german greek hebrew "
        "hindi hungarian icelandic indonesian irish italian japanese korean latvian lithuanian norwegian persian polish "
        "portuguese romanian russian serbian slovak slovenian spanish swedish tamil thai turkish ukrainian urdu vietnamese"
    )
)
LONGEST_NAME = 40  # characters; what is longer is no name
SAMPLE = 1000  # rows that are looked at


class Choice(NamedTuple):
    """Names of the columns: text and label, or text, second text and label; or why no names are sure."""

    columns: tuple[str, ...]
    doubt: str = ""


def role(name: str) -> Role | None:
    """Return what a column of this name holds, as far as its words say."""
    found = words(name)
    if not found:
        return "id" if not name.strip() or name.strip() == "#" else None  # an index that was saved along has no name
    if LABELS & set(found) or found[0] == "is":
        return None if found[-1] in TEXTS else "label"
    if found[-1] in IDS:
        return "id"
    return "text" if TEXTS & set(found) else None


def labelled_columns(header: Sequence[str]) -> Choice:
    """Find the columns of texts, or pairs of texts, with a label."""
    label, texts = _label(header), text_columns(header)
    if not label:
        several = [name for name in header if role(name) == "label"]
        return Choice((), f"{join_names(several)} could all be the label" if several else "no name says what is the label")
    return Choice((*texts.columns, label)) if texts.columns else texts


def text_columns(header: Sequence[str]) -> Choice:
    """Find the column of a text, or the two columns of a pair."""
    if pair := _pair(header):
        return Choice(pair)
    texts = [name for name in header if role(name) == "text"]
    if len(texts) == 1:
        return Choice((texts[0],))
    return Choice((), f"{join_names(texts)} could all be the text" if texts else "no name says what is the text")


def pair_columns(header: Sequence[str]) -> Choice:
    """Find source and target, or two languages, in their order."""
    by_words = {name: " ".join(words(name)) for name in header}
    for both in SIDES:
        if (found := _named(both, by_words)) is not None:
            return Choice(found)
    languages = [name for name, said in by_words.items() if said in LANGUAGES]
    if len(languages) == 2:
        return Choice(tuple(languages))
    return Choice((), "no names say what is source and what is target")


def source_column(header: Sequence[str]) -> tuple[str, ...]:
    """Find the column to translate, where no other side is needed."""
    if both := pair_columns(header).columns:
        return both[:1]
    known = LANGUAGES | {one for one, _ in SIDES}
    found = [name for name in header if " ".join(words(name)) in known]
    return tuple(found) if len(found) == 1 else ()


def is_header(first: Sequence[str], below: Rows, chosen: Sequence[str]) -> bool:
    """Return True if this row names columns: short, different, and with no word that occurs again below those `chosen`."""
    if len(set(first)) < len(first) or any(len(name) > LONGEST_NAME for name in first):
        return False
    columns = [number for number, name in enumerate(first) if name in chosen]
    named = {number: words(first[number]) for number in columns}
    cells = ((number, row[number]) for number in columns for row in below if len(row) > number)
    return not any(len(cell) <= LONGEST_NAME and words(cell) == named[number] for number, cell in cells)


def is_header_of_texts(first: Sequence[str], below: Rows, chosen: Sequence[str]) -> bool:
    """Return True if this row names text columns without a label: every word of the names must be known."""
    known = TEXTS | LABELS | IDS | LANGUAGES | {word for pair in (*TOGETHER, *SIDES) for word in pair} | {"a", "b"}
    return is_header(first, below, chosen) and all(known.issuperset(words(name)) for name in chosen)


def numbers_rows(name: str, values: Sequence[str]) -> bool:
    """Return True if this column is no text, but numbers the rows."""
    if not values or not all(value.strip().isdecimal() for value in values) or len(set(values)) < len(values):
        return False
    numbers = [int(value) for value in values]
    return role(name) == "id" or (len(values) > 2 and all(b - a == 1 for a, b in pairwise(numbers)))


def suggest_columns(header: Sequence[str], rows: Rows, texts: int = 1) -> tuple[str, ...]:
    """Suggest columns: by their names where these help, else the longest are texts, and the one with fewest values the label."""
    values = {name: [row[n].strip() for row in rows if len(row) == len(header)] for n, name in enumerate(header)}
    left = [name for name in header if not (role(name) == "id" or numbers_rows(name, values[name]))]
    label = _label(header) or min(
        (name for name in left if role(name) != "text"),
        key=lambda name: (role(name) != "label", _is_no_label(values[name]), len(set(values[name])), _length(values[name])),
        default="",
    )
    rest = [name for name in left if name != label]
    pair = _pair(rest) if texts == 2 else None
    by_length = sorted(rest, key=lambda name: (role(name) != "text", -_length(values[name])))
    chosen = pair or tuple(sorted(by_length[:texts], key=header.index))
    return (*chosen, label) if label and len(chosen) == texts else ()


def columns_setting(columns: Sequence[str]) -> str:
    """Return the setting as it is to be typed, with quotes."""
    return shlex.quote(f"data.columns={','.join(columns)}")


def is_name(name: str) -> bool:
    """Return True if all words of the name are usual in column names."""
    return bool(found := words(name)) and (TEXTS | LABELS | IDS).issuperset(found)


def join_names(names: Sequence[str]) -> str:
    *others, last = map(repr, names)
    return f"{', '.join(others)} and {last}" if others else last


def _label(header: Sequence[str]) -> str:
    """Return the only column that can be the label, or "" if several may."""
    lower = {name.lower(): name for name in header}
    for name in FIRST_OF_LABELS:
        if name in lower:
            return lower[name]
    found = [name for name in header if role(name) == "label"]
    return found[0] if len(found) == 1 else ""


def _pair(header: Sequence[str]) -> tuple[str, str] | None:
    """Find a pair: sentence1 and sentence2, text_a and text_b, #1 String and #2 String, premise and hypothesis."""
    plain = {re.sub(r"[\W_]+", "", name.lower()): name for name in header}
    for one, name in plain.items():
        for first, second in (("1", "2"), ("a", "b")):
            for begin, end in ((first, ""), ("", first)):
                base = one.removeprefix(begin).removesuffix(end)
                other = f"{second if begin else ''}{base}{second if end else ''}"
                if base != one and base in TEXTS and other in plain:
                    return name, plain[other]
    by_words = {name: " ".join(words(name)) for name in header}
    return next((found for both in TOGETHER if (found := _named(both, by_words)) is not None), None)


def _named(both: tuple[str, str], by_words: Mapping[str, str]) -> tuple[str, str] | None:
    found = [[name for name, said in by_words.items() if said == wanted] for wanted in both]
    return (found[0][0], found[1][0]) if [len(names) for names in found] == [1, 1] else None


def _length(values: Sequence[str]) -> float:
    return fmean(map(len, values)) if values else 0.0


def _is_no_label(values: Sequence[str]) -> bool:
    """Return True if the cells are empty, all equal, or nearly all different."""
    different = set(values)
    return "" in different or len(different) < 2 or len(different) > max(10, len(values) // 2)


def is_number(label: str) -> bool:
    try:
        return isfinite(float(label))
    except ValueError:
        return False
