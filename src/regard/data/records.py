"""Records, each a mapping from column to value, from JSON lines or from the hub; each with its place, for complaints."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from regard.data.files import numbered_lines
from regard.errors import UserError, nearest

Record = tuple[str, Mapping[str, object]]
HUB = re.compile(r"hf:(?P<name>[^@:]+)(@(?P<config>[^:]+))?(:(?P<split>.+))?")

HALF = re.compile(r"\\u[dD][89a-fA-F]")


def json_records(path: Path, example: str) -> Iterator[Record]:
    """One object on each line. `example` shows whoever wrote something else what a line should look like."""
    for number, line in numbered_lines(path):
        place = f"{path}, line {number}"
        record = parsed(line, place, "Write one whole object on each line.")
        if not isinstance(record, dict):
            raise UserError(f"{place}: {type(record).__name__} found, object expected. Write lines like {example}.")
        yield place, record


def parsed(text: str, place: str, cure: str) -> Any:
    """JSON whose texts are all text: it can also name halves of characters, which no file and no terminal can take."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{place}: this is not JSON ({error}). {cure}") from error
    if HALF.search(text):  # two halves may make one character
        try:
            json.dumps(found, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise UserError(f"{place}: a text holds half a character (a lone surrogate). Take it out.") from None
    return found


def hub_records(where: str) -> Iterator[Record]:
    """hf:NAME@CONFIG:SPLIT, where @CONFIG and :SPLIT (train) may be left out. `datasets` maps it into memory, and keeps it."""
    parts = HUB.fullmatch(where)
    if parts is None:
        raise UserError(
            f"{where} is not hf:NAME, hf:NAME:SPLIT or hf:NAME@CONFIG:SPLIT. Type, for instance, hf:wmt14@de-en:test."
        )
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise UserError(f'{where} needs the package `datasets`. Type: pip install "regard[data]"') from error
    try:
        rows = load_dataset(parts["name"], parts["config"], split=parts["split"] or "train")
    except Exception as error:  # no network, no such name, no such split, ...: `datasets` raises many things and says which
        raise UserError(
            f"{where} could not be opened: {error}. Check name, configuration and split (hf:NAME@CONFIG:SPLIT) and the network."
        ) from error
    named = _named_lists(rows)
    for number, record in enumerate(rows):
        told = {column: [names[n] if n in range(len(names)) else n for n in record[column]] for column, names in named.items()}
        yield f"{where}, row {number}", {**record, **told}


def _named_lists(rows: Any) -> dict[str, list[str]]:
    """Columns that hold lists of numbers which the data set has names for, such as the tags of a sentence's words."""
    features = getattr(rows, "features", None) or {}
    lists = {column: getattr(feature, "feature", None) for column, feature in features.items()}
    return {column: names for column, inner in lists.items() if (names := getattr(inner, "names", None))}


def text_of(record: Record, column: str, choose: str) -> str:
    """The text in this column; `choose` is what to type to name another."""
    place, values = record
    if column not in values:
        raise UserError(f"{place}: there is no column {column!r}{nearest(column, values)} Choose with {choose}.")
    text = values[column]
    if not isinstance(text, str):
        raise UserError(f"{place}: column {column!r} holds {type(text).__name__}, but text is needed. Put it in quotes.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UserError(f"{place}: column {column!r} holds half a character (a lone surrogate). Take it out.") from error
    return text
