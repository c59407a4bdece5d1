"""Sentences that a tiny GPT learns in a second, the recipe it does so by, and a writer that has: what tests of `write` share."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from regard.commands.train import Outcome, train_run
from regard.runs.recipe import Recipe, load_recipe
from regard.tasks.language_model.predict import TextGenerator
from regard.tasks.registry import open_run

CPU = torch.device("cpu")
WINDOW = 16
ANIMALS, SEES = ("cat", "dog", "bird", "horse"), ("sees", "hears", "likes")
TINY = [
    *("data.valid=", "data.test=", f"data.window={WINDOW}", "text.size=290"),
    *("model.width=16", "model.heads=2", "model.layers=2", "model.feedforward=32", "model.dropout=0.1"),
    *("model.maximum_length=16", "train.steps=6", "train.warmup=2", "train.tokens_per_batch=128", "train.learning_rate=1e-2"),
    *("train.validate_every=6", "train.checkpoint_every=6", "decode.maximum_length=8", "decode.top_p=1", "decode.temperature=1"),
    *("decode.sliding_window=false", "data.stride=0"),
]
_kept = TemporaryDirectory(prefix="regard-tests-")


def quiet(line: str) -> None: ...


def stories(count: int, seed: int = 0) -> list[str]:
    """Documents of one to three lines."""
    draw = random.Random(seed)

    def line() -> str:
        return f"the {draw.choice(ANIMALS)} {draw.choice(SEES)} the {draw.choice(ANIMALS)}."

    return ["\n".join(line() for _ in range(draw.randint(1, 3))) for _ in range(count)]


def write_stories(path: Path, texts: Sequence[str], column: str = "text") -> Path:
    path.write_text("".join(json.dumps({column: text}) + "\n" for text in texts), "utf-8")
    return path


def train(folder: Path, data: Path | str, *settings: str) -> Outcome:
    return train_as(load_recipe("gpt", [f"data.train={data}", *TINY, *settings]), folder)


def train_as(recipe: Recipe, folder: Path) -> Outcome:
    with patch("regard.training.logging.draw_curves"):  # which would take longer than the training
        return train_run(recipe, folder, CPU, quiet)


def last_weights(folder: Path) -> dict[str, bytes]:
    """Of the newest checkpoint, model and optimizer, to the bit."""
    newest = max((folder / "checkpoints").glob("step-*"))
    return {path.name: path.read_bytes() for path in newest.glob("*.safetensors")}


def trained(tokenizer: str = "byte-bpe", size: int = 290) -> Path:
    """A run that knows the sentences: to be read, not changed."""
    return _trained(tokenizer, size)


@cache
def _trained(tokenizer: str, size: int) -> Path:
    torch.set_num_threads(1)
    folder = Path(_kept.name) / tokenizer
    folder.mkdir()
    data = write_stories(folder / "stories.jsonl", stories(300))
    tokens = [f"text.tokenizer={tokenizer}", f"text.size={size}"]
    steps = ["train.steps=120", "train.tokens_per_batch=256", "train.validate_every=120", "train.checkpoint_every=120"]
    with patch.dict(os.environ, REGARD_CACHE=str(folder / "cache")):
        train(folder / "run", data, *tokens, *steps, "model.dropout=0")
    return folder / "run"


@cache
def _opened(tokenizer: str, size: int) -> TextGenerator:
    found = open_run(trained(tokenizer, size), "cpu")
    assert isinstance(found, TextGenerator)
    return found


def writer(tokenizer: str = "byte-bpe", size: int = 290, **decode: Any) -> TextGenerator:
    """The trained one, with this search."""
    found = _opened(tokenizer, size)
    return replace(found, decode=replace(found.decode, **decode))


@torch.no_grad()
def log_probabilities(found: TextGenerator, ids: Sequence[int]) -> Tensor:
    """logprob_LV of the token after each of these, by one plain pass."""
    logits_LV: Tensor = found.model(torch.tensor([list(ids)]))[0]
    return logits_LV.log_softmax(-1)
