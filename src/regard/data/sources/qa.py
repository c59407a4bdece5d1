"""Read questions about texts that contain the answers: from SQuAD's JSON, JSON lines, the hub, or a built-in corpus.

    "train-v1.1.json"          SQuAD's articles, paragraphs and questions; of v2.0 too, where some questions have no answer
    "train.jsonl"              one object on each line (.ndjson too)
    "builtin:stories/train"    needs no network
    "hf:NAME@CONFIG:SPLIT"     `datasets` opens NAME; @CONFIG and :SPLIT (train) may be left out

Every file may be gzipped (.gz), and several of these may be given, to be read one after the other. `columns` names what holds
question, context and answers, which are the default names. `references` says how answers may be written. An
"id" need not be there, but no two questions may have the same.

Answers are located in the context:

    "answers": [{"text": "Denver Broncos", "start": 177}]                    SQuAD says "answer_start"
    "answers": {"text": ["Denver Broncos"], "answer_start": [177]}           as on the hub
    "answers": ["Denver Broncos"], "answer": "Denver Broncos"                looked for, and there it must be just once
    "answers": [], "answer": null                                            the context does not say

A start counts characters from 0. Where an answer stands a little beside its start, it is taken from where it stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.errors import UserError
from regard.core.files import GIB, MIB, format_size
from regard.data.builtin import read_builtin
from regard.data.sources.files import JSON_LINES, must_be_file, suffix_of, text_blocks
from regard.data.sources.records import Record, at_least_one, hub_records, json_records, parse_record, text_of

BUILTIN = ("stories",)
NAMED = ("question", "context", "answers")
SQUAD = (".json",)
CHOOSE = "data.columns=QUESTION,CONTEXT,ANSWERS"
BLOCK = MIB
LARGEST = 2 * GIB  # characters of SQuAD's JSON, which has some forty million


class Question(NamedTuple):
    text: str
    context: str
    answers: tuple[Reference, ...]  # any of them is right; none: the context does not say
    id: str  # may be empty
    place: str  # where it stands, for complaints


def read_questions(
    where: tuple[str, ...], columns: tuple[str, ...] = (), limit: int | None = None, first: bool = False
) -> list[Question]:
    """Read all questions, or the first `limit`."""
    names = columns or NAMED
    records = chain.from_iterable(_records(entry, names) for entry in where)
    found = at_least_one([_question(record, names, first) for record in islice(records, limit)], where, "questions")
    seen: dict[str, str] = {}
    for question in found:
        if question.id and seen.setdefault(question.id, question.place) != question.place:
            raise UserError(
                f"{question.place}: the id {question.id[:40]!r} is that of {seen[question.id]} too. Give each its own."
            )
    return found


def _question(record: Record, columns: tuple[str, ...], first: bool) -> Question:
    place, values = record
    asked, context = (_written(record, column) for column in columns[:2])
    number = values.get("id", "")
    return Question(asked, context, references(record, columns[2], context, first), "" if number is None else str(number), place)


def _written(record: Record, column: str) -> str:
    text = text_of(record, column, CHOOSE)
    if not text.strip():
        raise UserError(f"{record[0]}: {column!r} is empty, but a text is needed. Fill it in, or take the question out.")
    return text


def _records(entry: str, names: tuple[str, ...]) -> Iterator[Record]:
    if entry.startswith("builtin:"):
        rows = ((*row[:2], [{"text": row[2], "start": row[3]}]) for row in read_builtin(entry, BUILTIN, "questions"))
        return ((f"{entry}, question {number}", dict(zip(names, row))) for number, row in enumerate(rows, start=1))
    if entry.startswith("hf:"):
        return hub_records(entry)
    path = Path(entry).expanduser()
    must_be_file(path)
    suffix = suffix_of(path)
    if suffix in SQUAD:
        return _from_squad(path)
    if suffix in JSON_LINES:
        return json_records(path, names)
    raise UserError(
        f"{path} is neither SQuAD's JSON nor JSON lines: questions come in files named *{', *'.join(SQUAD + JSON_LINES)} (or .gz "
        'of them). Write {"question": "...", "context": "...", "answer": "..."} on each line, and name the file *.jsonl.'
    )


def _from_squad(path: Path) -> Iterator[Record]:
    text = _whole(path)
    if not text.strip():
        raise UserError(f"{path} is empty: there is no question in it. Copy the file again.")
    whole = parse_record(text, str(path), "Correct that place, or copy the file again.")
    for article_place, article in _listed(whole, "data", str(path)):
        for paragraph_place, paragraph in _listed(article, "paragraphs", article_place):
            for place, asked in _listed(paragraph, "qas", paragraph_place):
                yield place, paragraph | asked


def _whole(path: Path) -> str:
    blocks, size = list[str](), 0
    for block in text_blocks(path, BLOCK):
        blocks.append(block)
        size += len(block)
        if size > LARGEST:
            raise UserError(
                f"{path} has more than {format_size(LARGEST)}, and JSON of this kind is read as a whole; write one question on "
                "each line, and name the file *.jsonl."
            )
    return "".join(blocks)


def _listed(holder: dict[str, Any], key: str, place: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects in holder[key], each with its place: file.json, data[0].paragraphs[3].qas[1]."""
    items = holder.get(key) if isinstance(holder, dict) else None
    if not isinstance(items, list):
        raise UserError(
            f"{place}: there is no list {key!r}, which SQuAD's JSON has there. If it is another kind of JSON, write one question "
            "on each line, and name the file *.jsonl."
        )
    for number, item in enumerate(items):
        here = f"{place}{'.' if key != 'data' else ', '}{key}[{number}]"
        if not isinstance(item, dict):
            raise UserError(f"{here}: {type(item).__name__} found, object expected, as SQuAD's JSON has there.")
        yield here, item


MOST = 1000  # places of an answer that are looked at: one letter may stand in a long text a million times
NEARBY = 20  # characters by which a start may be wrong: a slip in counting, and no other place
WRITE = 'Write "answers": [{"text": "...", "start": 0}], or [] where the context has none.'


class Reference(NamedTuple):
    text: str
    start: int  # context[start:].startswith(text)
    moved: bool = False  # it was said to stand elsewhere


def references(record: Record, column: str, context: str, first: bool) -> tuple[Reference, ...]:
    """Return the answers with their starts; with `first`, an answer without a start is taken from its first occurrence."""
    place, values = record
    column = "answer" if column == "answers" and column not in values else column
    if column not in values:
        raise UserError(f"{place}: there is no {column!r}. {WRITE}")
    found = tuple(_reference(place, text, start, context, first) for text, start in _given(place, column, values[column]))
    if values.get("is_impossible") is True and found:
        raise UserError(f"{place}: is_impossible is true, but there is the answer {found[0].text!r}; take one of them out.")
    return found


def _given(place: str, column: str, value: object) -> list[tuple[object, object]]:
    """Return (text, start) of each answer as given; start is None where none is given."""
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
            f"{place}: the answer {text[:60]!r} is not in the context, to the letter; an answer is a part of it. Correct one of "
            "them, or remove the question."
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
            f"{place}: the answer {text[:60]!r} does not stand at {start:,}; the nearest is at {nearest:,}. Correct its "
            "start, which counts characters from 0, or leave it out."
        )
    return Reference(text, nearest, nearest != start)


def _occurrences(text: str, context: str) -> list[int]:
    found, at = list[int](), context.find(text)
    while at >= 0 and len(found) < MOST:
        found.append(at)
        at = context.find(text, at + 1)
    return found
