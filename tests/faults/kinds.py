"""What is trained and killed: a name, and a function that trains in a folder, or goes on there. To add a kind, add a line.

Each must leave `checkpoints/{step,best,average}-N` in its folder, be the same every time, and take well under a second.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import nn

from regard.cli import main
from regard.data.batching.labelled import SpecialTokens
from regard.data.batching.masked import MaskedPassages, Masking, Passages
from regard.data.batching.pairs import Ragged
from regard.data.batching.streams import Streams
from regard.data.batching.windows import Windows
from regard.data.loader import Loader, Source
from regard.families.bert import BERT, BERTConfig
from regard.families.gpt import GPT, GPTConfig
from regard.objectives.base import Objective
from regard.objectives.causal_lm import CausalLMConfig, CausalLMLoss
from regard.objectives.masked_lm import MaskedLMConfig, MaskedLMLoss
from regard.training.checkpoint import Store
from regard.training.config import TrainConfig
from regard.training.logging import RunLog
from regard.training.loop import Validation, train
from regard.training.progress import catch_signals
from regard.training.resume import average, resume
from tests.command import tiny

Train = Callable[[Path], None]
STEPS, EVERY = 30, 3  # and a checkpoint after so many of them

BASE = (
    *(f"train.steps={STEPS}", "train.warmup=5", "train.tokens_per_batch=128", "train.log_every=1", "train.validate_every=15"),
    *(f"train.checkpoint_every={EVERY}", "train.keep=3", "train.average=3", "model.dropout=0.2", "data.test="),
)


def command(*settings: str) -> Train:
    """`regard train` on the tiny corpus, as a person would type it."""

    def run(folder: Path) -> None:
        sys.argv = ["regard", "train", str(tiny()), *BASE, *settings, "--device", "cpu", "--out", str(folder)]
        main(sys.argv[1:])

    return run


WORDS, MASK = 40, 39
SMALL = dict(width=32, heads=2, layers=1, feedforward=48, dropout=0.2, maximum_length=32)
TRAIN = TrainConfig(
    steps=STEPS, warmup=5, tokens_per_batch=128, log_every=1, validate_every=15, checkpoint_every=EVERY, keep=3, average=3
)


def loop(make: Callable[[], tuple[nn.Module, Objective, Source]]) -> Train:
    """A family that has no command yet, by the loop that all commands run."""

    def run(folder: Path) -> None:
        model, objective, source = make()
        folder.mkdir(parents=True, exist_ok=True)
        store = Store(folder / "checkpoints")
        optimizer, progress = resume(store, TRAIN, model)
        loader, log = Loader(source), RunLog(folder, TRAIN.steps, progress.step)

        @torch.no_grad()
        def validate(model: nn.Module) -> Validation:
            (batch,) = loader.work(0).batches
            return Validation({"nll": objective(model, batch).parts["nll"].item() / batch.tokens}, [])

        with catch_signals() as interrupt:
            progress = train(model, objective, loader, validate, TRAIN, store, log, progress, optimizer, interrupt)
        if interrupt:
            print(f"saved step {progress.step} in {folder}; continue with: regard train")  # as a command would
            raise SystemExit(interrupt.exit_code)
        average(store, TRAIN.average, progress.step)

    return run


def next_token() -> tuple[nn.Module, Objective, Source]:
    text = np.random.default_rng(1).integers(0, WORDS, 1000)
    source = Windows(text, 16, TRAIN.tokens_per_batch, seed=1)
    return GPT(GPTConfig(**SMALL), WORDS, seed=1), CausalLMLoss(CausalLMConfig()), source


def segments() -> tuple[nn.Module, Objective, Source]:
    """Segments of text after a memory, which every checkpoint has to keep."""
    text = np.random.default_rng(1).integers(0, WORDS, 1000)
    config = GPTConfig(**SMALL | dict(maximum_length=8), position="transformer-xl", memory=12)
    return GPT(config, WORDS, seed=1), CausalLMLoss(CausalLMConfig()), Streams(text, 8, TRAIN.tokens_per_batch, seed=1)


def masked() -> tuple[nn.Module, Objective, Source]:
    random = np.random.default_rng(2)
    texts = Ragged([random.integers(1, MASK, length).tolist() for length in random.integers(4, 60, 30)])
    passages = Passages(texts.flat, texts.offsets[:-1], 32, SpecialTokens(0, 0, 0), seed=1)
    source = MaskedPassages(passages, TRAIN.tokens_per_batch, Masking(1, MASK, range(1, MASK)))
    return BERT(BERTConfig(**SMALL), WORDS, seed=1), MaskedLMLoss(MaskedLMConfig()), source


KINDS: dict[str, Train] = {
    "translation": command(),
    "translation with R-Drop": command("objective.r_drop=5"),
    "translation, post-norm, accumulate 2, learned positions": command(
        "model.norm_placement=post", "train.accumulate=2", "model.position=learned", "model.maximum_length=64"
    ),
    "next token (GPT)": loop(next_token),
    "segments with a memory": loop(segments),
    "masked words (BERT)": loop(masked),
}
