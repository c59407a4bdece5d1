"""A made-up text in which words of two kinds keep different company, and the recipes that learn it in a second."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from regard.commands.train import Outcome, train_run
from regard.runs.recipe import load_recipe
from regard.tasks.registry import open_run
from regard.tasks.word_vectors.predict import WordVectorModel

CPU = torch.device("cpu")
ANIMALS, COLOURS = ("cat", "dog", "bird", "horse", "fish"), ("red", "green", "blue", "black", "white")
DO, ARE = ("eats", "sleeps", "runs", "hides", "drinks"), ("paint", "light", "ink", "cloth", "glass")
SETTINGS = ["text.minimum_count=1", "text.tokenizer=spaced", "model.width=16", "train.checkpoint_every=7", "train.log_every=5"]
EPOCHS = {"skipgram": 25, "cbow": 40, "glove": 60}
_kept = TemporaryDirectory(prefix="regard-tests-")


def quiet(line: str) -> None: ...


def lines(count: int = 600, seed: int = 0) -> list[str]:
    chance = random.Random(seed)
    kinds = ((ANIMALS, DO), (COLOURS, ARE))
    made = []
    for _ in range(count):
        names, company = chance.choice(kinds)
        made.append(f"{chance.choice(names)} {chance.choice(company)} {chance.choice(names)} {chance.choice(company)}")
    return made


@cache
def text_file() -> Path:
    path = Path(_kept.name) / "made-up.txt"
    path.write_text("\n".join(lines()) + "\n", "utf-8")
    return path


def settings(name: str, *more: str) -> list[str]:
    chosen = [f"data.train={text_file()}", *SETTINGS, f"train.epochs={EPOCHS[name]}"]
    chosen += ["train.batch=512", "train.learning_rate=0.05", "objective.window=3"]
    chosen += [] if name == "glove" else ["objective.subsample=0"]
    return [*chosen, *more]


def train(name: str, folder: Path, *more: str, say: Any = quiet) -> Outcome:
    return train_run(load_recipe(name, settings(name, *more)), folder, CPU, say)


@cache
def trained(name: str = "skipgram") -> Path:
    folder = Path(_kept.name) / name
    train(name, folder)
    return folder


def lexicon(name: str = "skipgram") -> WordVectorModel:
    found = open_run(trained(name), "cpu", ["data.nearest=4"])
    assert isinstance(found, WordVectorModel)
    return found
