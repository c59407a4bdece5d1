"""A table in, a table out: every row as it came, with what the model says of its texts in new columns behind its own.

The new columns are `predicted`, `probability` and what else the model tells; where the table has such a name already, they are
called `predicted_2` and so on, and nothing that came is changed. A row whose text is empty gets empty cells. The table that comes
out is of the kind that came in, or of the kind that --output ends with: .csv, .tsv or .jsonl.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

from regard.commands.share import WHOLE, Share
from regard.core.errors import UserError
from regard.core.terminal import Emit, print_stderr
from regard.data.sources.column_choice import LISTED, Texts, texts_in_table
from regard.data.sources.columns import join_names, text_columns
from regard.data.sources.files import numbered_lines
from regard.data.sources.labelled import JSON_LINES, TABLES, below_header, column_name, read_cell
from regard.data.sources.records import Record, json_records, table_records
from regard.data.sources.tagged import read_words
from regard.runs.protocols import Predictor
from regard.tasks.predictor import on_one_line
from regard.tasks.tagging.predict import Marked

CHUNK = 64  # rows answered together, as lines are
OTHERS = (".json", ".conll", ".conllu")  # no lines of texts either
A_WORD_A_LINE = (".conll", ".conllu")
NAMES = ("text", "second")  # of texts in a table without a header, for machines
BREAKS = {"\t", "\n", "\r"}  # what cannot stand in a cell between tabs

Fields = Mapping[str, Any]


@runtime_checkable
class Tabular(Protocol):
    """A model that answers the rows of a table."""

    columns: tuple[str, ...]  # of a table, as in training: the texts', and behind them the label's or the target's

    @property
    def texts(self) -> int:
        """Return the number of texts in a row; 0: one or two."""
        ...

    @property
    def tells(self) -> tuple[str, ...]:
        """The names of the new columns."""
        ...

    def fields(self, asked: Sequence[tuple[str, ...]], first: int) -> Sequence[Fields]:
        """Return the new columns of each row, and what JSON has besides; the first row is number `first` of all."""
        ...


@runtime_checkable
class OfTable(Tabular, Protocol):
    """A model that answers rows of paths, which begin where the table is."""

    def of_table(self, path: Path) -> Tabular:
        """Return the same model for this table."""
        ...


@runtime_checkable
class OfWords(Protocol):
    """A model that says something of every word."""

    def tag_words(self, sentences: Sequence[Sequence[str]]) -> Sequence[Marked]: ...


class Line(NamedTuple):
    """A row of the table: what it came as, and its texts; none where one of them is empty."""

    values: Mapping[str, object]
    texts: tuple[str, ...] | None


def is_table(path: Path) -> bool:
    return path.is_file() and _suffix(path) in (*TABLES, *JSON_LINES, *OTHERS)


def predict_table(path: Path, output: Path | None, answers: Predictor, as_json: bool, emit: Emit, share: Share = WHOLE) -> None:
    """Tell the table, or a share of it, a few rows at a time."""
    if isinstance(answers, OfWords) and _suffix(path) in A_WORD_A_LINE:
        _predict_words(path, answers, as_json, emit, share)
        return
    if not isinstance(answers, Tabular) or _suffix(path) in OTHERS:
        _predict_lines(path, answers, as_json, emit, share)
        return
    if isinstance(answers, OfTable):
        answers = answers.of_table(path)
    kind = _suffix(output) if output is not None and _suffix(output) in (*TABLES, *JSON_LINES) else _suffix(path)
    names, lines = _read(path, answers, print_stderr if share.is_first else len)
    writer = _Writer(".jsonl" if as_json else kind, answers.tells, emit)
    if share.is_first:
        writer.header(names)
    for start in share.starts(len(lines), CHUNK):
        some = lines[start : start + CHUNK]
        asked = [line.texts for line in some if line.texts is not None]
        found = iter(answers.fields(asked, start) if asked else [])
        for line in some:
            writer.row(line.values, next(found) if line.texts is not None else {})
    if share.is_first and (empty := sum(line.texts is None for line in lines)):
        print_stderr(f"--input {path}: {empty:,} of {len(lines):,} rows have no text, and got empty predictions")


def _predict_words(path: Path, answers: OfWords, as_json: bool, emit: Emit, share: Share) -> None:
    """`word<TAB>tag<TAB>probability` for each word as the file has them, and an empty line behind each sentence."""
    sentences = read_words(path)
    for start in share.starts(len(sentences), CHUNK):
        some = sentences[start : start + CHUNK]
        for words, said in zip(some, answers.tag_words(some), strict=True):
            if as_json:
                told = {"words": words, "tags": said.tags, "probabilities": said.probabilities}
                emit(json.dumps(told, ensure_ascii=False) + "\n")
            else:
                each = zip(words, said.tags, said.probabilities, strict=True)
                emit("".join(f"{word}\t{tag}\t{probability:.4f}\n" for word, tag, probability in each) + "\n")


def _predict_lines(path: Path, answers: Predictor, as_json: bool, emit: Emit, share: Share) -> None:
    """Questions and contexts, for instance, with the tab that they are typed with."""
    if _suffix(path) != ".tsv":
        raise UserError(
            f"--input {path} is no list of texts, and this model reads one text on each line; write the texts alone into a .txt "
            "file. To score a file of examples, use 'regard evaluate RUN data.test=FILE'."
        )
    rows = [line for _, line in numbered_lines(path)]
    for start in share.starts(len(rows), CHUNK):
        answers.predict(rows[start : start + CHUNK], start, as_json, emit)


def _read(path: Path, answers: Tabular, say: Callable[[str], object]) -> tuple[tuple[str, ...], list[Line]]:
    """Read a whole table before anything is predicted: the names of its columns, where it has a header, and its rows."""
    try:
        if _suffix(path) in JSON_LINES:
            return (), list(_from_json(path, answers))
        found = texts_in_table(path, answers.columns[:-1], answers.texts)
        if found.guessed:
            say(f"--input {path}: the text is {join_names(found.columns)}, by its header. For others: data.columns=TEXT,LABEL")
        return found.names, list(_from_table(path, found))
    except UserError as error:
        raise UserError(f"--input {error}") from None


def _from_json(path: Path, answers: Tabular) -> Iterator[Line]:
    columns = answers.columns[:-1]
    for record in json_records(path, NAMES[:1]):
        columns = columns or _keys(record[1], answers.texts)
        yield Line(record[1], _texts(record, columns))


def _keys(values: Mapping[str, object], texts: int) -> tuple[str, ...]:
    """Return the keys that hold the texts, by their names; `text` by default."""
    guess = text_columns([name for name, value in values.items() if isinstance(value, str)]).columns
    if "text" in values and texts != 2:
        return ("text",)
    return guess if len(guess) == (texts or len(guess)) and guess else (f"text|{LISTED}", "second")[: texts or 1]


def _from_table(path: Path, found: Texts) -> Iterator[Line]:
    for record in table_records(path, below_header(path, found), found.columns):
        values, texts = record[1], _texts(record, found.columns)
        if found.headed:
            values = {name: values[str(n)] for n, name in enumerate(found.names)}
        elif not found.names:
            short = dict(zip(found.columns, NAMES))
            values = {short.get(name, name): value for name, value in values.items()}
        yield Line(values, texts)


def _texts(record: Record, columns: Sequence[str]) -> tuple[str, ...] | None:
    found = [column_name(record, column) for column in columns]
    if any(record[1].get(name, "") is None or str(record[1].get(name, "-")).strip() in ("", "[]") for name in found):
        return None
    return tuple(read_cell(record, name) for name in found)


@dataclass(frozen=True)
class _Writer:
    """Rows as text of one kind; a header comes first, where the table has one."""

    kind: str
    tells: tuple[str, ...]  # the new columns
    emit: Emit

    def header(self, names: tuple[str, ...]) -> None:
        if names and self.kind not in JSON_LINES:
            self._cells([*names, *self._called(names).values()])

    def row(self, values: Mapping[str, object], fields: Fields) -> None:
        called = self._called(values)
        if self.kind in JSON_LINES:
            every = dict.fromkeys(self.tells) | dict(fields)
            told = {called.get(name, name): value for name, value in every.items() if name in called or name not in values}
            self.emit(json.dumps({**values, **told}, ensure_ascii=False) + "\n")
        else:
            self._cells([*map(_cell, values.values()), *(_cell(fields.get(name, "")) for name in self.tells)])

    def _called(self, names: Iterable[str]) -> dict[str, str]:
        """A new column has another name where the table has its name already."""
        taken, called = set(names), dict[str, str]()
        for name in self.tells:
            others = (f"{name}_{n}" for n in count(2))
            called[name] = name if name not in taken else next(other for other in others if other not in taken)
            taken.add(called[name])
        return called

    def _cells(self, cells: Sequence[str]) -> None:
        if self.kind == ".csv":
            out = io.StringIO(newline="")
            csv.writer(out, lineterminator="\n").writerow(cells)
            self.emit(out.getvalue())
        else:
            self.emit("\t".join(on_one_line(cell) if BREAKS & set(cell) else cell for cell in cells) + "\n")


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4f}"
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)


def _suffix(path: Path) -> str:
    return Path(path.name.lower().removesuffix(".gz")).suffix
