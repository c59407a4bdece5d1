"""A table to predict from: its texts are where those of the training's table were, whatever else stands beside them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from regard.data.files import numbered_lines
from regard.data.labelled import JSON_LINES, TABLES, Example
from regard.data.unlabelled import read_unlabelled
from regard.errors import UserError
from regard.tasks.classifier import Labeller
from regard.tasks.rater import Rater
from regard.tasks.task import Answers

CHUNK = 64  # rows answered together, as lines are
OTHERS = (".json", ".conll", ".conllu")  # no lines of texts either


def is_table(path: Path) -> bool:
    return path.is_file() and _suffix(path) in (*TABLES, *JSON_LINES, *OTHERS)


def texts_of(path: Path, answers: Answers) -> Iterator[list[str]]:
    """A few rows at a time, as they would be typed: a tab between the texts of a pair."""
    if isinstance(answers, Labeller | Rater) and _suffix(path) not in OTHERS:
        count = answers.texts or len(answers.columns[:-1]) or 1  # a public folder takes one as well as two
        rows = ["\t".join(example.texts) for example in _read(path, answers.columns, count)]
    elif _suffix(path) == ".tsv":  # questions and contexts, for instance, with the tab that they are typed with
        rows = [line for _, line in numbered_lines(path)]
    else:
        raise UserError(
            f"--input {path} is no list of texts, and this model reads one text on each line; write the texts alone into a .txt "
            "file. To score a file of examples, use 'regard evaluate RUN data.test=FILE'."
        )
    return (rows[start : start + CHUNK] for start in range(0, len(rows), CHUNK))


def _read(path: Path, columns: tuple[str, ...], count: int) -> list[Example]:
    try:
        return read_unlabelled((str(path),), columns, count)
    except UserError as error:
        raise UserError(f"--input {error}") from None


def _suffix(path: Path) -> str:
    return Path(path.name.lower().removesuffix(".gz")).suffix
