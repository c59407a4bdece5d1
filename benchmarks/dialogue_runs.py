"""The bots that `dialogue` compares: what each is, and one of them trained and asked for its test set, in a process.

Those that write have the same dialogues, vocabulary, replies a batch and steps, and as many parameters: the width of the network
that reads all turns as one text is the one that comes nearest to the hierarchical one's size. Both read five turns, and ten.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks.real import MINILM, folder
from benchmarks.steps import CUDA, DEVICE
from regard.commands.train import train_run
from regard.families import family_of
from regard.families.base import Sizes
from regard.families.hran import HRANConfig
from regard.families.recurrent import RecurrentConfig
from regard.runs.init_recipe import load_recipe_to_train
from regard.runs.recipe import Recipe, load_recipe
from regard.tasks.dialogue.prepare import read_test
from regard.tasks.predictor import EvaluationResult
from regard.tasks.registry import open_run

PIECES, WIDTH = 6000, 256
READ = ["data.replies=every", "text.lowercase=true", "train.keep=1", "decode.batch_tokens=16384"]
FIVE = ["data.turns=5", "data.maximum_tokens=128", "train.tokens_per_batch=8192"]
TEN = ["data.turns=10", "data.maximum_tokens=256", "train.tokens_per_batch=16384"]
WRITE = [
    *("text.tokenizer=bpe", f"text.size={PIECES}", "model.dropout=0.4"),
    *("train.steps=1000", "train.learning_rate=2e-3", "train.warmup=100"),
    *("train.validate_every=100", "train.checkpoint_every=500", "train.patience=3"),
    *("decode.search=greedy", "decode.maximum_length=40"),
]
FIND = ["data.turns=3", "data.maximum_tokens=64", "train.best=accuracy"]
SCRATCH = [
    *("text.tokenizer=word", "text.size=12000", "text.minimum_count=2", "model.width=256"),
    *("train.epochs=5", "train.tokens_per_batch=8192", "train.validate_every=0", "train.checkpoint_every=0"),
]
TUNED = [
    *("train.epochs=4", "train.tokens_per_batch=8192", "train.learning_rate=5e-5", "train.schedule=linear", "train.warmup=0.1"),
    *("train.validate_every=0", "train.checkpoint_every=0"),
]
WRITERS = ("HRAN", "turns joined", "HRAN, ten turns", "ten turns joined", "last turn alone")
FINDERS = ("found, from scratch", "found, from MiniLM", "found, MiniLM as it is")


class Made(NamedTuple):
    scores: dict[str, Any]  # of the test set
    outputs: list[str]
    parameters: int
    seconds: float
    validation: float  # nll, or the share found among ten
    settings: list[str]


def equal_width(pieces: int = PIECES, width: int = WIDTH) -> int:
    """Of the network that reads all turns as one text: even, and as many parameters as the hierarchical one, or nearly."""
    target = _parameters(HRANConfig(width=width), pieces)

    def joined(candidate: int) -> int:
        return _parameters(RecurrentConfig(width=candidate, cell="gru", attention="bahdanau", mixer="additive"), pieces)

    wider = 2 * bisect_left(range(width * 2), target, key=lambda half: joined(max(2, 2 * half)))
    return min((wider - 2, wider), key=lambda candidate: abs(joined(candidate) - target))


def _parameters(config: HRANConfig | RecurrentConfig, pieces: int) -> int:
    return family_of(config).count(config, Sizes(vocabulary=pieces), 1).parameters


def recipe_of(bot: str, data: Sequence[str]) -> tuple[Recipe, list[str]]:
    """And what was set beside the data."""
    hran = [*READ, *WRITE, f"model.width={WIDTH}", f"train.compile={str(CUDA).lower()}"]
    joined = [*READ, *WRITE, "model.attention=bahdanau", "model.mixer=additive", f"model.width={equal_width()}"]
    name, settings = {
        "HRAN": ("chat-hran", [*hran, *FIVE]),
        "turns joined": ("chat-multi", [*joined, *FIVE]),
        "HRAN, ten turns": ("chat-hran", [*hran, *TEN]),
        "ten turns joined": ("chat-multi", [*joined, *TEN]),
        "last turn alone": ("chat-multi", [*joined, *FIVE, "data.turns=1"]),
        "found, from scratch": ("chat-words", [*READ, *FIND, *SCRATCH]),
        "found, from MiniLM": ("chat-retrieval", [*[s for s in READ if "lowercase" not in s], *FIND, *TUNED]),
    }[bot]
    if bot == "found, from MiniLM":
        return load_recipe_to_train(name, [*settings, f"task.init_from={folder(MINILM)}", *data]), settings
    return load_recipe(name, [*settings, *data]), settings


def trained(bot: str, seed: int, data: Sequence[str], into: Path, threads: int) -> Made:
    torch.set_num_threads(threads)
    if bot == "found, MiniLM as it is":
        return _as_it_is(data)
    recipe, settings = recipe_of(bot, [f"train.seed={seed}", *data])
    outcome = train_run(recipe, into / f"{bot} {seed}", DEVICE, lambda line: None)
    assert isinstance(outcome.result, EvaluationResult)
    parameters, best = outcome.prepared.example()[0].parameters, outcome.progress.best
    assert best is not None
    return Made(outcome.result.as_dict(), outcome.result.outputs, parameters, outcome.progress.seconds, best, settings)


def _as_it_is(data: Sequence[str]) -> Made:
    settings = ["task.name=retrieval", *FIND[:2], READ[0], READ[-1]]
    bot = open_run(folder(MINILM), str(DEVICE), [*settings, *data])
    result = bot.evaluate(read_test(load_recipe("chat-retrieval", [*settings, *data])))
    assert isinstance(result, EvaluationResult)
    return Made(result.as_dict(), result.outputs, sum(p.numel() for p in bot.model.parameters()), 0.0, 0.0, settings)
