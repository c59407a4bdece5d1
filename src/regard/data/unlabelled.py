"""Texts, or pairs of texts, that nobody has labelled: for a student whose teacher says what they are.

    "more.txt"                   a text on each line; of a pair, the two with a tab between them
    "more.tsv" "more.csv"        a table: the text columns of data.columns; not chosen, those that its header names, or without a
                                 header all it has, or all but a label behind them
    "more.jsonl"                 one object on each line (.ndjson too), the text in "text" unless data.columns says otherwise
    "builtin:..." "hf:..."       as labelled texts are, their labels left unread

Every file may be gzipped (.gz). What is nothing but white space is no text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path

from regard.data.chosen import NAMED, Texts, texts_in_table
from regard.data.files import must_be_file, numbered_lines
from regard.data.labelled import JSON_LINES, PLAIN, TABLES, Example, called, read_labelled, written
from regard.data.records import Record, hub_records, json_records
from regard.data.tables import Row, table_records, table_rows
from regard.errors import UserError

NONE = ""  # the label


def read_unlabelled(where: tuple[str, ...], columns: tuple[str, ...], texts: int) -> list[Example]:
    """All of them, with `texts` to an example; `columns` are those of labelled data, the label's the last."""
    found = list(chain.from_iterable(_examples(entry, columns[:-1], texts) for entry in where))
    if not found:
        raise UserError(f"{' and '.join(where)}: there are no texts in it. Give data with at least one.")
    for example in found:
        if len(example.texts) != texts:
            raise UserError(f"{example.place}: texts found: {len(example.texts)}, expected: {texts}, as in the labelled data.")
    return found


def _examples(entry: str, columns: tuple[str, ...], texts: int) -> Iterator[Example]:
    if entry.startswith("builtin:"):
        return (Example(example.text, example.second, NONE, example.place) for example in read_labelled((entry,)))
    if entry.startswith("hf:"):
        return (_example(record, columns or NAMED[:1]) for record in hub_records(entry))
    path = Path(entry).expanduser()
    must_be_file(path)
    suffix = Path(path.name.lower().removesuffix(".gz")).suffix
    if suffix == PLAIN:
        return _from_lines(path)
    if suffix in TABLES:
        return _from_table(path, columns, texts)
    if suffix in JSON_LINES:
        names = columns or NAMED[:1]
        return (_example(record, names) for record in json_records(path, json.dumps(dict.fromkeys(names, "..."))))
    raise UserError(
        f"{path} is neither text nor a table: unlabelled texts come in files named *{', *'.join((PLAIN, *TABLES, *JSON_LINES))} "
        "(or .gz of them). Write a text on each line, and name the file *.txt."
    )


def _from_lines(path: Path) -> Iterator[Example]:
    for number, line in numbered_lines(path):
        if line.strip():
            first, tab, second = line.partition("\t")
            yield Example(first, second if tab else None, NONE, f"{path}, line {number}")


def _from_table(path: Path, columns: tuple[str, ...], texts: int) -> Iterator[Example]:
    found = texts_in_table(path, columns, texts)
    return (_example(record, found.columns) for record in table_records(path, below_header(path, found), found.columns))


def below_header(path: Path, found: Texts) -> Iterator[Row]:
    """The rows of a table, without a header that nobody asks for."""
    return islice(table_rows(path), found.headed, None)


def _example(record: Record, columns: tuple[str, ...]) -> Example:
    first, *others = (written(record, called(record, column)) for column in columns)
    return Example(first, others[0] if others else None, NONE, record[0])
