"""Read texts, or pairs of texts, with or without labels: from tables, JSON lines, the hub, or built-in corpora.

    "train.tsv" "train.csv"      a table: text and label, or text, second text and label
    "train.jsonl"                one object on each line (.ndjson too)
    "train.txt"                  a table with tabs, if its columns are chosen or its header says which they are
    "builtin:remarks/train"      needs no network; "builtin:inference/..." and "builtin:similarity/..." have pairs
    "builtin:reviews/train"      of several sentences each
    "builtin:listops/train"      generated sequences of symbols (see `data/lra`)
    "photos/" "photos.tar.gz"    images, pixel by pixel (see `data/lra/images.py`)
    "hf:NAME@CONFIG:SPLIT"       `datasets` opens NAME; @CONFIG and :SPLIT (train) may be left out

Every file may be gzipped (.gz), and several of these may be given, to be read one after the other. `columns` names two columns,
text and label, or three, with a second text between them: by name, or of tables by number ("0", "1"). Without
`columns`, the header or the keys decide if they leave no doubt (see `choose_columns`); a table without a header has just two or
three. A column with another name in each file is given by all its names: sentence|content. A label is text; a number or true or
false is taken as it is written. Where "sentences" is a list of strings, that is the text, sentence by sentence.

Texts without labels, for distillation, where a teacher labels them:

    "more.txt"                   a text on each line; of a pair, the two with a tab between them
    "more.tsv" "more.csv"        a table: the text columns of data.columns; not chosen, those that its header names, or without a
                                 header all it has, or all but a label behind them
    "more.jsonl"                 one object on each line (.ndjson too), the text in "text" unless data.columns says otherwise
    "builtin:..." "hf:..."       as labelled texts are, their labels left unread

Every file may be gzipped (.gz). What is nothing but white space is no text.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from regard.core.errors import UserError
from regard.data.builtin import read_builtin
from regard.data.lra import SETS, concatenate, generate_sequences, is_generated
from regard.data.lra.images import is_pictures, read_pictures
from regard.data.sources.column_choice import LISTED, NAMED, ColumnChoice, Texts, in_records, in_table, texts_in_table
from regard.data.sources.columns import is_header, labelled_columns, role
from regard.data.sources.files import JSON_LINES, must_be_file, numbered_lines, suffix_of
from regard.data.sources.records import Record, Row, at_least_one, hub_records, json_records, table_records, table_rows, text_of
from regard.text.offsets import SENTENCE_END

BUILTIN = ("remarks", "reviews", "inference", "similarity")
TABLES = (".tsv", ".csv")
PLAIN = ".txt"  # any text; a table if its columns are known
CHOOSE = "data.columns=TEXT,LABEL or data.columns=TEXT,SECOND,LABEL"


class Example(NamedTuple):
    text: str
    second: str | None  # of a pair
    label: str
    place: str  # where it stands, for complaints

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.text,) if self.second is None else (self.text, self.second)

    @property
    def key(self) -> Hashable:
        """Return a key that is equal for equal texts."""
        return self.texts

    @property
    def shown(self) -> tuple[str, ...]:
        """Return the texts as printed."""
        return tuple(text.replace(SENTENCE_END, " ") for text in self.texts)


def read_labelled(where: tuple[str, ...], columns: tuple[str, ...] = (), limit: int | None = None) -> Sequence[Example]:
    """Read all examples, or the first `limit`: all texts, all pairs, or all sequences of symbols."""
    if any(map(_is_numbered, where)):
        if others := [entry for entry in where if not _is_numbered(entry)]:
            raise UserError(
                f"{others[0]} holds texts, but others of {' and '.join(where)} hold symbols; give them to different runs."
            )
        return concatenate([(generate_sequences if is_generated(e) else read_pictures)(e, limit) for e in where], limit)
    examples = chain.from_iterable(_examples(entry, columns) for entry in where)
    found = at_least_one(list(islice(examples, limit)), where, "texts")
    for example in found:
        if len(example.texts) != len(found[0].texts):
            raise UserError(
                f"{example.place} has {_kind(example)}, but {found[0].place} has {_kind(found[0])}. Choose the same columns in "
                f"both: {CHOOSE}."
            )
    return found


def _is_numbered(entry: str) -> bool:
    return is_generated(entry) or is_pictures(entry)


def _kind(example: Example) -> str:
    return "one text and its label" if example.second is None else "two texts and their label"


def choose_columns(entry: str, columns: tuple[str, ...]) -> ColumnChoice | None:
    """Choose the columns to read from this entry; None if it has none."""
    if entry.startswith("builtin:") or _is_numbered(entry):
        return None
    if entry.startswith("hf:"):
        return in_records(entry, hub_records(entry), columns)
    path = Path(entry).expanduser()
    must_be_file(path)
    suffix = suffix_of(path)
    if _is_json(path):
        return in_records(f"{path}, line 1", json_records(path, columns or NAMED), columns)
    if suffix in TABLES or (suffix == PLAIN and (columns or _is_headed(path))):
        return in_table(path, columns)
    raise UserError(
        f"{path} is no table: texts and their labels come in files named *{', *'.join(TABLES + JSON_LINES)} (or .gz of them). "
        "Write a text, a tab and its label on each line, and name the file *.tsv."
    )


def describe_columns(where: tuple[str, ...], columns: tuple[str, ...]) -> list[str]:
    """Describe which columns were chosen of files whose columns were not given."""
    found = {entry: choose_columns(entry, columns) for entry in where}
    names = {entry: "keys" if entry.startswith("hf:") or _is_json(Path(entry)) else "header" for entry in where}
    return [choice.describe(entry, names[entry]) for entry, choice in found.items() if choice is not None and choice.guessed]


def lacks_labels(where: tuple[str, ...], columns: tuple[str, ...]) -> bool:
    """Return True if none of these has labels, as GLUE's test files: no label column, an empty one, or -1 throughout."""
    try:
        return bool(where) and all(_lacks_labels(entry, columns) for entry in where)
    except UserError:
        return False  # reading it will say what is wrong


def _lacks_labels(entry: str, columns: tuple[str, ...]) -> bool:
    if entry.startswith(("builtin:", "hf:")) or _is_numbered(entry):
        return False
    path = Path(entry).expanduser()
    if _is_json(path):
        records = json_records(path, columns or NAMED)
        (first,) = islice(records, 1)
        label, labels = _label_of(tuple(first[1]), columns), chain([first], records)
        return not label or all(_is_no_label(values.get(column_name((place, values), label))) for place, values in labels)
    found = texts_in_table(path, columns[:-1], 0)
    rows = (row for _, row in islice(table_rows(path), bool(found.names), None))
    width = len(next(table_rows(path))[1])
    if found.names and not (columns and columns[-1].isdecimal()):
        label = _label_of(found.names, columns)
        number = found.names.index(label) if label in found.names else width
    else:
        number = int(columns[-1]) if columns else max(1, width - 1)
    return number >= width or all(len(row) == width and _is_no_label(row[number]) for row in rows)


def _label_of(names: tuple[str, ...], columns: tuple[str, ...]) -> str:
    """Return the name of the label column here, or "" if there is none."""
    if columns:
        return next((name for name in (columns[-1], *columns[-1].split("|")) if name in names), "")
    return next((name for name in names if role(name) == "label"), "")


def _is_no_label(value: object) -> bool:
    return value is None or str(value).strip() in ("", "-1")


def _is_headed(path: Path) -> bool:
    """Return True if a table called .txt, as MRPC's are, has a first row of known column names."""
    (_, first), *below = islice(table_rows(path), 2)
    return is_header(first, [row for _, row in below], first) and bool(labelled_columns(first).columns)


def _is_json(path: Path) -> bool:
    return suffix_of(path) in JSON_LINES


def _examples(entry: str, columns: tuple[str, ...]) -> Iterator[Example]:
    path, found = Path(entry).expanduser(), choose_columns(entry, columns)
    if found is None:
        rows = enumerate(read_builtin(entry, BUILTIN, "labelled texts", SETS), start=1)
        return (Example(row[0], row[1] if len(row) > 2 else None, row[-1], f"{entry}, text {number}") for number, row in rows)
    if entry.startswith("hf:"):
        records = hub_records(entry)
    elif _is_json(path):
        records = json_records(path, found.columns)
    else:
        records = table_records(path, islice(table_rows(path), found.headed, None), found.columns)
    return (_example(record, found.columns[:-1], found.columns[-1]) for record in records)


def _example(record: Record, texts: tuple[str, ...], label: str = "") -> Example:
    first, *others = (read_cell(record, column_name(record, column)) for column in texts)
    said = _label(record, column_name(record, label)) if label else NONE
    return Example(first, others[0] if others else None, said, record[0])


def column_name(record: Record, column: str) -> str:
    """Return which of a column's names (sentence|content) occurs here."""
    names = [column, *column.split("|")]
    return next((name for name in names if name in record[1]), names[1])


def read_cell(record: Record, column: str) -> str:
    listed = record[1].get(column) if column == LISTED else None
    text = _joined(listed, record[0]) if isinstance(listed, list) else text_of(record, column, CHOOSE)
    if not text.strip():
        raise UserError(f"{record[0]}: column {column!r} is empty, but a text is needed. Fill it in, or take the line out.")
    return text


def _joined(listed: list[object], place: str) -> str:
    """Join sentences that were given as a list, so that none of them is split again."""
    if others := [sentence for sentence in listed if not isinstance(sentence, str)]:
        what = type(others[0]).__name__
        raise UserError(f"{place}: the list in column {LISTED!r} holds {what}, but texts are needed. Put each in quotes.")
    return "".join(f"{text_of((place, {LISTED: sentence}), LISTED, CHOOSE)}{SENTENCE_END}" for sentence in listed)


def _label(record: Record, column: str) -> str:
    place, values = record
    if isinstance(value := values.get(column), bool | int | float):
        return json.dumps(value)
    label = text_of(record, column, CHOOSE).strip()
    if not label or not label.isprintable():
        what = "is empty" if not label else "holds a line end, a tab or another character that cannot be seen"
        raise UserError(f"{place}: the label in column {column!r} {what}. Write one word or a few, or take the line out.")
    return label


NONE = ""  # the label


def read_unlabelled(where: tuple[str, ...], columns: tuple[str, ...], texts: int) -> list[Example]:
    """Read texts without labels, `texts` to an example; `columns` are those of labelled data, the label's last."""
    examples = chain.from_iterable(_unlabelled_examples(entry, columns[:-1], texts) for entry in where)
    found = at_least_one(list(examples), where, "texts")
    for example in found:
        if len(example.texts) != texts:
            raise UserError(f"{example.place}: texts found: {len(example.texts)}, expected: {texts}, as in the labelled data.")
    return found


def _unlabelled_examples(entry: str, columns: tuple[str, ...], texts: int) -> Iterator[Example]:
    if entry.startswith("builtin:"):
        return (Example(example.text, example.second, NONE, example.place) for example in read_labelled((entry,)))
    if entry.startswith("hf:"):
        return (_example(record, columns or NAMED[:1]) for record in hub_records(entry))
    path = Path(entry).expanduser()
    must_be_file(path)
    suffix = suffix_of(path)
    if suffix == PLAIN:
        return _from_lines(path)
    if suffix in TABLES:
        found = texts_in_table(path, columns, texts)
        return (_example(record, found.columns) for record in table_records(path, below_header(path, found), found.columns))
    if suffix in JSON_LINES:
        names = columns or NAMED[:1]
        return (_example(record, names) for record in json_records(path, names))
    raise UserError(
        f"{path} is neither text nor a table: unlabelled texts come in files named *{', *'.join((PLAIN, *TABLES, *JSON_LINES))} "
        "(or .gz of them). Write a text on each line, and name the file *.txt."
    )


def _from_lines(path: Path) -> Iterator[Example]:
    for number, line in numbered_lines(path):
        if line.strip():
            first, tab, second = line.partition("\t")
            yield Example(first, second if tab else None, NONE, f"{path}, line {number}")


def below_header(path: Path, found: Texts) -> Iterator[Row]:
    """Yield the rows of a table without a header that is not needed."""
    return islice(table_rows(path), found.headed, None)
