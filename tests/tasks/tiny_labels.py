"""Remarks that a tiny model learns to judge in a second, and the recipe it does so by: what tests of `classify` share."""

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
from regard.tasks.classification.predict import TextClassifier
from regard.tasks.registry import open_run

CPU = torch.device("cpu")
THINGS, SEEN = ("cat", "dog", "bird", "horse", "fish", "cow"), ("old", "small", "brown", "young", "wet", "big")
ROWS = [  # judged by one word, wherever it stands
    (f"the {look} {thing} is {'not ' if bad else ''}nice{' today' if n % 3 else ''}", "bad" if bad else "good")
    for n, (thing, look, bad) in enumerate(product(THINGS, SEEN, (False, True)))
]
PAIRS = [  # judged by which of the two is the nice one
    (f"a {'nice' if first else look} {a}", f"a {look if first else 'nice'} {b}", "first" if first else "second")
    for n, (a, b, first) in enumerate(product(THINGS, THINGS, (True, False)))
    for look in [SEEN[n // 2 % 6]]
]
TINY = [
    *("data.test=", "text.size=60", "model.width=24", "model.heads=2", "model.layers=1", "model.feedforward=48"),
    *("model.dropout=0", "model.maximum_length=24", "train.steps=40", "train.warmup=4", "train.tokens_per_batch=256"),
    *("train.learning_rate=1e-2", "train.validate_every=40", "train.checkpoint_every=40"),
]
_kept = TemporaryDirectory(prefix="regard-tests-")


def quiet(line: str) -> None: ...


def write_rows(path: Path, rows: Sequence[tuple[str, ...]]) -> Path:
    path.write_text("".join("\t".join(row) + "\n" for row in rows), "utf-8")
    return path


def recipe(data: Path, *settings: str) -> Recipe:
    return load_recipe("gpt-classify", [f"data.train={data}", f"data.valid={data}", *TINY, *settings])


def train_as(chosen: Recipe, folder: Path) -> Outcome:
    torch.set_num_threads(1)
    with patch("regard.training.logging.draw_curves"):  # which would take longer than the training
        return train_run(chosen, folder, CPU, quiet)


def trained(family: str = "gpt", pairs: bool = False) -> Path:
    """A run that knows its rows: to be read, not changed."""
    return _trained(family, pairs)


@cache
def _trained(family: str, pairs: bool) -> Path:
    folder = Path(_kept.name) / f"{family}-{pairs}"
    folder.mkdir()
    data = write_rows(folder / "rows.tsv", PAIRS if pairs else ROWS)
    language = ["objective.language=0.5" if family == "gpt" else "objective.language=0"]
    longer = ["train.steps=120", "train.validate_every=120", "train.checkpoint_every=120"] if pairs else []
    train_as(recipe(data, f"model.family={family}", f"data.test={data}", *language, *longer), folder / "run")
    return folder / "run"


def labeller(family: str = "gpt", pairs: bool = False, *settings: str) -> TextClassifier:
    found = open_run(trained(family, pairs), "cpu", settings)
    assert isinstance(found, TextClassifier)
    return found
