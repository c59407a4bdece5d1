"""Sentences that a tiny model learns to tag in a second, and the recipe it does so by: what tests of `tag` share."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import torch

from regard.commands.train import Outcome, train_run
from regard.runs.recipe import Recipe, load_recipe
from regard.tasks.registry import open_run
from regard.tasks.tagging.predict import Tagger

CPU = torch.device("cpu")
PERSONS, PLACES, SEES = ("Ann", "Ann Lee", "Bob", "Bob Ray"), ("Rome", "New Oslo", "Paris"), ("likes", "left", "saw")
Row = tuple[list[str], list[str]]


def row(person: str, verb: str, place: str, end: str) -> Row:
    """*Ann Lee left New Oslo .*"""
    parts = [(person, "PER"), (verb, ""), (place, "LOC"), (end, "")]
    words = [(word, n, type_) for part, type_ in parts for n, word in enumerate(part.split())]
    return [word for word, _, _ in words], [f"{'I' if n else 'B'}-{type_}" if type_ else "O" for _, n, type_ in words]


ROWS = [row(*parts) for parts in product(PERSONS, SEES, PLACES, (".", "!"))]
SPEECH = {"B-PER": "NNP", "I-PER": "NNP", "B-LOC": "NNP", "I-LOC": "NNP"}
PLAIN = [(words, [SPEECH.get(tag, "VB" if word in SEES else "SIGN") for word, tag in zip(words, tags)]) for words, tags in ROWS]
TINY = [
    *("data.test=", "text.size=80", "model.width=24", "model.heads=2", "model.layers=1", "model.feedforward=48"),
    *("model.dropout=0", "model.maximum_length=24", "train.steps=60", "train.warmup=5", "train.tokens_per_batch=256"),
    *("train.learning_rate=1e-2", "train.validate_every=60", "train.checkpoint_every=60"),
]
_kept = TemporaryDirectory(prefix="regard-tests-")


def quiet(line: str) -> None: ...


def write_rows(path: Path, rows: Sequence[Row]) -> Path:
    path.write_text("\n".join("".join(f"{w} {t}\n" for w, t in zip(*both)) for both in rows), "utf-8")
    return path


def recipe(data: Path, *settings: str) -> Recipe:
    return load_recipe("bert-tag", [f"data.train={data}", f"data.valid={data}", *TINY, *settings])


def train_as(chosen: Recipe, folder: Path) -> Outcome:
    torch.set_num_threads(1)
    with patch("regard.training.logging.draw_curves"):  # which would take longer than the training
        return train_run(chosen, folder, CPU, quiet)


def trained(plain: bool = False) -> Path:
    """A run that knows its rows: to be read, not changed."""
    return _trained(plain)


@cache
def _trained(plain: bool) -> Path:
    folder = Path(_kept.name) / f"plain-{plain}"
    folder.mkdir()
    data = write_rows(folder / "rows.conll", PLAIN if plain else ROWS)
    train_as(recipe(data, f"data.test={data}"), folder / "run")
    return folder / "run"


def tagger(plain: bool = False, *settings: str) -> Tagger:
    found = open_run(trained(plain), "cpu", settings)
    assert isinstance(found, Tagger)
    return found
