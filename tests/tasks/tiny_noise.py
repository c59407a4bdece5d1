"""Tiny models that restore the tiny stories: what tests of `seq2seq_denoising` share."""

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
    *("model.width=16", "model.heads=2", "model.layers=1", "model.feedforward=32", "train.optimizer=adamw"),
    *("train.steps=6", "train.warmup=2", "train.tokens_per_batch=128", "train.learning_rate=1e-2"),
    *("train.validate_every=6", "train.checkpoint_every=6", "train.log_every=6", "decode.search=greedy"),
]
_kept = TemporaryDirectory(prefix="regard-tests-")


def tiny_recipe(noise: str, where: Path | str, *settings: str) -> Recipe:
    return load_recipe("t5", [f"data.train={where}", f"objective.noise={noise}", *TINY, *settings])


def train(folder: Path, noise: str, where: Path | str, *settings: str) -> Outcome:
    return train_as(tiny_recipe(noise, where, *settings), folder)


@cache
def data() -> Path:
    return write_stories(Path(_kept.name) / "stories.jsonl", stories(300))


@cache
def trained(noise: str) -> Path:
    """A run that knows the stories: to be read, not changed."""
    torch.set_num_threads(1)
    folder = Path(_kept.name) / noise
    steps = ["train.steps=150", "train.tokens_per_batch=512", "train.validate_every=150", "train.checkpoint_every=150"]
    with patch.dict(os.environ, REGARD_CACHE=str(Path(_kept.name) / "cache")):
        train(folder, noise, data(), *steps, "model.width=32", "text.size=160")
    return folder
