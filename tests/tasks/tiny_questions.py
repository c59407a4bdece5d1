"""Questions that a tiny model learns to answer in a few seconds, and the recipe it does so by: what tests of `answer` share."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import torch

from regard.commands.train import Outcome, train_run
from regard.runs.recipe import Recipe, load_recipe
from regard.tasks.question_answering.predict import QuestionAnswerer
from regard.tasks.registry import open_run

CPU = torch.device("cpu")
ANIMALS, COLOURS, DEEDS = (
    ("cat", "dog", "bird", "horse", "cow"),
    ("old red", "blue", "green", "white"),
    ("sleeps", "runs", "eats"),
)
ASKED = {"Which animal?": ANIMALS, "Which colour?": COLOURS, "What does it do?": DEEDS}


def row(question: str, context: str) -> dict[str, Any]:
    """Answered by what kind of word is asked for; a context without one does not say."""
    found = [(context.index(word), word) for word in ASKED[question] if word in context]
    return {"question": question, "context": context, "answers": [{"text": word, "start": start} for start, word in found]}


ROWS = [
    row(question, text)
    for n, (question, animal, colour, deed) in enumerate(product(ASKED, ANIMALS, COLOURS, DEEDS))
    for text in [f"Today, the {colour} {animal} {deed}." if n % 2 else f"It {deed}: a {animal}, {colour}!"]
]
SILENT = [row("Which colour?", f"Today, the {animal} {deed}.") for animal in ANIMALS for deed in DEEDS]
SILENT += [row("Which animal?", f"It {deed}, {colour}!") for colour in COLOURS for deed in DEEDS]
TINY = [
    *("data.test=", "data.window=24", "data.maximum_question=6", "data.compare=false", "text.size=60", "model.width=32"),
    *("model.heads=2", "model.layers=1", "model.feedforward=64", "model.dropout=0", "model.maximum_length=32"),
    *("model.position=learned", "model.segments=2", "train.steps=160", "train.warmup=5", "train.tokens_per_batch=512"),
    *("train.learning_rate=1e-2", "train.validate_every=160", "train.checkpoint_every=160"),
]
_kept = TemporaryDirectory(prefix="regard-tests-")


def quiet(line: str) -> None: ...


def write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    return path


def recipe(data: Path, *settings: str) -> Recipe:
    return load_recipe("bert-answer", [f"data.train={data}", f"data.valid={data}", *TINY, *settings])


def train_as(chosen: Recipe, folder: Path) -> Outcome:
    torch.set_num_threads(1)
    with patch("regard.training.logging.draw_curves"):  # which would take longer than the training
        return train_run(chosen, folder, CPU, quiet)


def trained(silent: bool = False) -> Path:
    """A run that knows its rows, or also when to say nothing: to be read, not changed."""
    return _trained(silent)


@cache
def _trained(silent: bool) -> Path:
    folder = Path(_kept.name) / f"{silent}"
    folder.mkdir()
    data = write_rows(folder / "rows.jsonl", ROWS + SILENT * 2 if silent else ROWS)
    train_as(recipe(data, f"data.test={data}", f"data.unanswerable={str(silent).lower()}"), folder / "run")
    return folder / "run"


def answerer(silent: bool = False, *settings: str) -> QuestionAnswerer:
    found = open_run(trained(silent), "cpu", settings)
    assert isinstance(found, QuestionAnswerer)
    return found
