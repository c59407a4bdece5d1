"""Questions about texts that hold the answers, from whatever people have: SQuAD's JSON, JSON lines, the hub, or what comes along.

    "train-v1.1.json"          SQuAD's articles, paragraphs and questions; of v2.0 too, where some questions have no answer
    "train.jsonl"              one object on each line (.ndjson too)
    "builtin:stories/train"    needs no network
    "hf:NAME@CONFIG:SPLIT"     `datasets` opens NAME; @CONFIG and :SPLIT (train) may be left out

Every file may be gzipped (.gz), and several of these may be given, to be read one after the other. `columns` names what holds
question, context and answers, which are their names unless told otherwise. How answers are written stands in `references`. An
"id" need not be there, but no two questions may have the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from regard.data.builtin import rows_of
from regard.data.builtin.stories import stories
from regard.data.files import must_be_file, text_blocks
from regard.data.records import Record, hub_records, json_records, parsed, text_of
from regard.data.references import Reference, references
from regard.errors import UserError
from regard.files import GIB, MIB, told_size

BUILTIN = {"stories": stories}
NAMED = ("question", "context", "answers")
SQUAD, JSON_LINES = (".json",), (".jsonl", ".ndjson")
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
    """All questions, or the first `limit`."""
    names = columns or NAMED
    records = chain.from_iterable(_records(entry, names) for entry in where)
    found = [_question(record, names, first) for record in islice(records, limit)]
    if not found:
        raise UserError(f"{' and '.join(where)}: there are no questions in it. Give data with at least one.")
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
        return _from_builtin(entry, names)
    if entry.startswith("hf:"):
        return hub_records(entry)
    path = Path(entry).expanduser()
    must_be_file(path)
    suffix = Path(path.name.lower().removesuffix(".gz")).suffix
    if suffix in SQUAD:
        return _from_squad(path)
    if suffix in JSON_LINES:
        return json_records(path, json.dumps(dict.fromkeys(names, "...")))
    raise UserError(
        f"{path} is neither SQuAD's JSON nor JSON lines: questions come in files named *{', *'.join(SQUAD + JSON_LINES)} (or .gz "
        'of them). Write {"question": "...", "context": "...", "answer": "..."} on each line, and name the file *.jsonl.'
    )


def _from_builtin(where: str, names: tuple[str, ...]) -> Iterator[Record]:
    for number, story in enumerate(rows_of(where, BUILTIN, "questions"), start=1):
        answers = [{"text": story.answer, "start": story.start}]
        yield f"{where}, question {number}", dict(zip(names, (story.question, story.context, answers)))


def _from_squad(path: Path) -> Iterator[Record]:
    text = _whole(path)
    if not text.strip():
        raise UserError(f"{path} is empty: there is no question in it. Copy the file again.")
    whole = parsed(text, str(path), "Mend that place, or copy the file again.")
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
                f"{path} has more than {told_size(LARGEST)}, and JSON of this kind is read as a whole; write one question on "
                "each line, and name the file *.jsonl."
            )
    return "".join(blocks)


def _listed(holder: dict[str, Any], key: str, place: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects in holder[key], each with its place: file.json, data[0].paragraphs[3].qas[1]."""
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
