"""The answers that people gave to a question, each found again in the context that it was taken from.

    "answers": [{"text": "Denver Broncos", "start": 177}]                    SQuAD says "answer_start"
    "answers": {"text": ["Denver Broncos"], "answer_start": [177]}           as on the hub
    "answers": ["Denver Broncos"], "answer": "Denver Broncos"                looked for, and there it must be just once
    "answers": [], "answer": null                                            the context does not say

A start counts characters from 0. Where an answer stands a little beside its start, it is taken from where it stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from regard.data.records import Record
from regard.errors import UserError

MOST = 1000  # places of an answer that are looked at: one letter may stand in a long text a million times
NEARBY = 20  # characters by which a start may be wrong: a slip in counting, and no other place
WRITE = 'Write "answers": [{"text": "...", "start": 0}], or [] where the context has none.'


class Reference(NamedTuple):
    text: str
    start: int  # context[start:].startswith(text)
    moved: bool = False  # it was said to stand elsewhere


def references(record: Record, column: str, context: str, first: bool) -> tuple[Reference, ...]:
    """With `first`, an answer without a start that stands there several times is taken from the first of them."""
    place, values = record
    column = "answer" if column == "answers" and column not in values else column
    if column not in values:
        raise UserError(f"{place}: there is no {column!r}. {WRITE}")
    found = tuple(_reference(place, text, start, context, first) for text, start in _given(place, column, values[column]))
    if values.get("is_impossible") is True and found:
        raise UserError(f"{place}: is_impossible is true, but there is the answer {found[0].text!r}; take one of them out.")
    return found


def _given(place: str, column: str, value: object) -> list[tuple[object, object]]:
    """Text and start of each, whatever they are; None where no start is given."""
    if value is None:
        return []
    if isinstance(value, str):
        return [(value, None)]
    if isinstance(value, dict) and isinstance(texts := value.get("text"), Sequence) and not isinstance(texts, str):
        starts = value.get("start", value.get("answer_start"))
        if not isinstance(starts, Sequence) or len(starts) != len(texts):
            raise UserError(f"{place}: {column!r} has {len(texts)} texts, and not as many starts. {WRITE}")
        return list(zip(texts, starts))
    if not isinstance(value, Sequence):
        raise UserError(f"{place}: {column!r} holds {type(value).__name__}, but answers are needed. {WRITE}")
    return [_one(place, column, answer) for answer in value]


def _one(place: str, column: str, answer: object) -> tuple[object, object]:
    if isinstance(answer, str):
        return answer, None
    if not isinstance(answer, dict) or "text" not in answer:
        raise UserError(f"{place}: one of {column!r} has no text: {str(answer)[:60]}. {WRITE}")
    return answer["text"], answer.get("start", answer.get("answer_start"))


def _reference(place: str, text: object, start: object, context: str, first: bool) -> Reference:
    if not isinstance(text, str) or not text.strip():
        raise UserError(f"{place}: an answer has no text, but {str(text)[:40]!r}. {WRITE}")
    if start is not None and (not isinstance(start, int) or isinstance(start, bool)):
        raise UserError(f"{place}: the answer {text[:60]!r} starts at {start!r}, which is no whole number. {WRITE}")
    white, text = len(text) - len(text.lstrip()), text.strip()
    found = _occurrences(text, context)
    if not found:
        raise UserError(
            f"{place}: the answer {text[:60]!r} is not in the context, to the letter; an answer is a part of it. Mend one of "
            "them, or take the question out."
        )
    if start is not None:
        return _at(place, text, start + white, context, found)
    if len(found) > 1 and not first:
        times = f"{len(found)} times{' or more' * (len(found) == MOST)}"
        raise UserError(
            f"{place}: the answer {text[:60]!r} is in the context {times}. Say which is meant by its start, such as "
            f'"start": {found[0]}, or set data.first=true.'
        )
    return Reference(text, found[0])


def _at(place: str, text: str, start: int, context: str, found: list[int]) -> Reference:
    around = range(max(0, start - NEARBY), min(len(context), start + NEARBY) + 1)
    close = [there for there in around if context.startswith(text, there)]
    nearest = min(close or found, key=lambda there: abs(there - start))
    if abs(nearest - start) > NEARBY:
        raise UserError(
            f"{place}: the answer {text[:60]!r} does not stand at {start:,}; the nearest is at {nearest:,}. Mend its start, "
            "which counts characters from 0, or leave it out."
        )
    return Reference(text, nearest, nearest != start)


def _occurrences(text: str, context: str) -> list[int]:
    found, at = list[int](), context.find(text)
    while at >= 0 and len(found) < MOST:
        found.append(at)
        at = context.find(text, at + 1)
    return found
