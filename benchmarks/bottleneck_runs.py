"""The translators that `bottleneck` compares: what each is, and one of them trained and asked for its test set, in a process.

They differ in how a decoder looks back, and in nothing that costs: the same pairs, vocabulary, batches, steps and search.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from benchmarks.steps import DEVICE
from regard.commands.train import train_run
from regard.data.sources import Pair
from regard.data.sources.parallel import read_pairs
from regard.runs.recipe import load_recipe
from regard.tasks.translation.predict import Translated

RECIPES = {
    "one vector": ("translate-rnn", []),
    "dot": ("translate-dot", []),
    "bilinear": ("translate-dot", ["model.mixer=bilinear"]),
    "additive": ("translate-dot", ["model.mixer=additive"]),
    "Transformer": ("translate", []),
}
SMALL = ["train.steps=1000", "train.validate_every=250", "train.checkpoint_every=250", "decode.search=greedy"]
LARGE = [
    *("text.tokenizer=bpe", "text.size=8000", "model.dropout=0.3", "objective.smoothing=0.1", "train.precision=bf16"),
    *("train.steps=4800", "train.tokens_per_batch=8192", "train.warmup=400", "train.validate_every=400"),
    *("train.checkpoint_every=200", "train.keep=5", "train.average=5", "decode.beam=5", "decode.length_penalty=1.0"),
]
LARGE_RECURRENT = ["model.width=512", "model.layers=2", "train.learning_rate=1e-3"]
LARGE_TRANSFORMER = ["model.width=256", "model.feedforward=1024", "model.layers=6", "train.learning_rate=2e-3"]


class Made(NamedTuple):
    outputs: list[str]  # of the test set
    parameters: int
    seconds: float
    validation: float


def settings_of(name: str, large: bool) -> tuple[str, list[str]]:
    """The recipe of a contender and what is set beside it; `large` is for tens of thousands of real pairs on a GPU."""
    recipe, own = RECIPES[name]
    if not large:
        return recipe, [*own, *SMALL]
    return recipe, [*own, *LARGE, *(LARGE_TRANSFORMER if name == "Transformer" else LARGE_RECURRENT)]


def trained(name: str, data: Sequence[str], large: bool, folder: Path, threads: int) -> Made:
    torch.set_num_threads(threads)
    recipe, settings = settings_of(name, large)
    outcome = train_run(load_recipe(recipe, [*settings, *data]), folder / name, DEVICE, lambda line: None)
    assert isinstance(outcome.result, Translated)
    assert outcome.progress.best is not None
    parameters = outcome.prepared.example()[0].parameters
    return Made(outcome.result.outputs, parameters, outcome.progress.seconds, outcome.progress.best)


def joined(split: str, most: int, limit: int) -> list[Pair]:
    """Built-in sentences are short, so one to `most` of them make a text, each number of them as often; at most `limit` texts."""
    pairs, found, at = read_pairs((f"builtin:english-french/{split}",)), list[Pair](), 0
    while (count := len(found) % most + 1) <= len(pairs) - at and len(found) < limit:
        several, at = pairs[at : at + count], at + count
        found.append(Pair(" ".join(pair.source for pair in several), " ".join(pair.target for pair in several)))
    return found
