"""Tiny models of text-to-text tasks: what their tests share."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from regard.commands.train import Outcome
from regard.runs.recipe import Recipe, load_recipe
from tests.tasks.tiny_text import train_as

ANIMALS, SEES = ("cat", "dog", "bird", "horse"), ("sees", "hears", "likes")
TINY = [
    *("data.valid=", "data.test=", "data.valid_fraction=0.1", "text.size=80", "data.prefixes=", "text.tokenizer=word"),
    *("model.width=32", "model.heads=2", "model.layers=1", "model.feedforward=32", "model.dropout=0.1", "train.optimizer=adamw"),
    *("train.steps=6", "train.warmup=2", "train.tokens_per_batch=256", "train.learning_rate=1e-2", "objective.smoothing=0"),
    *("train.validate_every=6", "train.checkpoint_every=6", "train.log_every=6", "decode.search=greedy"),
]
_kept = TemporaryDirectory(prefix="regard-tests-")


def rows(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """Sentences, each with its last word as the summary."""
    draw = random.Random(seed)
    found = [f"the {draw.choice(ANIMALS)} {draw.choice(SEES)} the {draw.choice(ANIMALS)} {n % 10}" for n in range(count)]
    return [(text, f"the {text.split()[4]}") for text in found]


def write_jsonl(path: Path, pairs: Sequence[tuple[str, str]], names: tuple[str, str] = ("input", "target")) -> Path:
    path.write_text("".join(json.dumps(dict(zip(names, pair))) + "\n" for pair in pairs), "utf-8")
    return path


@cache
def data() -> Path:
    return write_jsonl(Path(_kept.name) / "data.jsonl", rows(300))


@cache
def moods() -> Path:
    """A second task: labels."""
    return write_jsonl(Path(_kept.name) / "moods.jsonl", [(text, "good" if "cat" in text else "bad") for text, _ in rows(90, 1)])


def tiny_recipe(*settings: str) -> Recipe:
    return load_recipe("summarize", [f"data.train={data()}", *TINY, *settings])


def train(folder: Path, *settings: str) -> Outcome:
    return train_as(tiny_recipe(*settings), folder)


TWO = ("data.prefixes=last:,mood:", "data.weights=2,1")


@cache
def trained() -> Path:
    """A run of two tasks: to be read, not changed."""
    torch.set_num_threads(1)
    folder = Path(_kept.name) / "run"
    steps = ["train.steps=200", "train.tokens_per_batch=512", "train.validate_every=200", "train.checkpoint_every=200"]
    train(folder, f"data.train={data()},{moods()}", *TWO, *steps, "model.dropout=0")
    return folder
