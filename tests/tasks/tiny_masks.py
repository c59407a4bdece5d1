"""A tiny BERT and a tiny ELECTRA that have read the tiny stories: what tests of `fill` share."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import torch

from regard.commands.train import Outcome
from regard.runs.recipe import Recipe, load_recipe
from tests.tasks.tiny_text import stories, train_as, write_stories

WINDOW = 24
TINY = [
    *("data.valid=", "data.test=", f"data.window={WINDOW}", "text.size=80", "data.valid_fraction=0.1"),
    *("model.width=16", "model.heads=2", "model.layers=2", "model.feedforward=32", "model.dropout=0.1"),
    *("model.maximum_length=24", "train.steps=6", "train.warmup=2", "train.tokens_per_batch=128", "train.learning_rate=1e-2"),
    *("train.validate_every=6", "train.checkpoint_every=6", "train.optimizer=adamw", "train.log_every=6"),
]
FAMILIES = ("bert", "electra")
_kept = TemporaryDirectory(prefix="regard-tests-")


def tiny_recipe(family: str, data: Path | str, *settings: str) -> Recipe:
    narrow = ["model.generator_width=8"] if family == "electra" else []
    return load_recipe(family, [f"data.train={data}", *TINY, *narrow, *settings])


def train(folder: Path, family: str, data: Path | str, *settings: str) -> Outcome:
    return train_as(tiny_recipe(family, data, *settings), folder)


@cache
def data() -> Path:
    return write_stories(Path(_kept.name) / "stories.jsonl", stories(300))


def trained(family: str) -> Path:
    """A run that knows the stories: to be read, not changed."""
    return _trained(family)


@cache
def _trained(family: str) -> Path:
    torch.set_num_threads(1)
    folder = Path(_kept.name) / family
    steps = ["train.steps=150", "train.tokens_per_batch=384", "train.validate_every=150", "train.checkpoint_every=150"]
    with patch.dict(os.environ, REGARD_CACHE=str(Path(_kept.name) / "cache")):
        train(folder, family, data(), *steps, "model.dropout=0", "objective.mask_rate=0.2")
    return folder
