"""The task `language_model`: running text, one vocabulary, and a decoder that learns to continue it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import nn

from regard.core.errors import UserError
from regard.data.batching.windows import Windows
from regard.data.loader import Source
from regard.families.gpt import GPT, count
from regard.model.flops import Part
from regard.objectives.base import Objective
from regard.objectives.causal_lm import CausalLMLoss
from regard.runs.folder import Say
from regard.runs.load import vocabulary_of, window_of
from regard.runs.pretrained import VOCABULARY, InitCheckpoint
from regard.runs.recipe import Recipe
from regard.tasks.corpus import Text, must_be_there, read_running
from regard.tasks.language_model.perplexity import TestText
from regard.tasks.language_model.predict import TextGenerator
from regard.text.tokenizer import Tokenizer
from regard.training.loop import Validation

SAMPLE_TOKENS = 64


@dataclass(frozen=True)
class Texts:
    """Prepared text (see `task.Prepared`)."""

    recipe: Recipe
    tokenizer: Tokenizer
    train: Text
    valid: Text
    test: TestText | None
    start: InitCheckpoint | None  # none too where the run has weights of its own by now
    unit = "tokens"
    metric = "nll"

    @property
    def vocabularies(self) -> Mapping[str, Tokenizer]:
        return {VOCABULARY: self.tokenizer}

    @property
    def window(self) -> int:
        return window_of(self.recipe)

    def model(self) -> GPT:
        model = GPT(self.recipe.model, self._vocabulary, seed=self.recipe.train.seed)
        if self.start is not None:
            self.start.fill(model)
        return model

    @cached_property
    def _vocabulary(self) -> int:
        return self.start.vocabulary if self.start else vocabulary_of(self.recipe, self.tokenizer)

    def objective(self) -> CausalLMLoss:
        return CausalLMLoss(self.recipe.objective)

    def source(self, *, packed: bool) -> Source:
        return self._windows(self.train, packed)

    def _windows(self, text: Text, packed: bool = False) -> Windows:
        train, ended = self.recipe.train, self.tokenizer.roles.eos is not None
        apart = self.recipe.data.document_mask
        return Windows(
            text.ids, self.window, train.tokens_per_batch, train.seed, text.starts, ended=ended, apart=apart, packed=packed
        )

    def validator(self, objective: Objective) -> Callable[[nn.Module], Validation]:
        """Loss on the validation text, and how the model goes on from its beginning."""
        windows, opening = self._windows(self.valid), self.valid.ids[: min(16, self.window // 2)].tolist()

        @torch.no_grad()
        def validate(model: nn.Module) -> Validation:
            device, total, tokens = next(model.parameters()).device, torch.zeros((), dtype=torch.float64), 0
            for batch in windows.in_order():
                total, tokens = total + objective(model, batch.to(device)).total.double().cpu(), tokens + batch.tokens
            nll = total.item() / tokens
            if not np.isfinite(nll):
                return Validation({"nll": nll}, [])  # weights that broke cannot write
            writer = TextGenerator.validating(model, self.tokenizer, self.window, SAMPLE_TOKENS)  # type: ignore[arg-type]
            begun = self.tokenizer.decode(opening)
            return Validation({"nll": nll, "perplexity": float(np.exp(min(nll, 50.0)))}, [f"{begun}|{writer(begun)}"])

        return validate

    def example(self) -> tuple[Part, int]:
        return count(self.recipe.model, self._vocabulary, self.window), self.window

    def amounts(self) -> dict[str, str]:
        return {"train": self.train.amount, "valid": self.valid.amount}

    def fingerprints(self) -> dict[str, str]:
        return {"train": self.train.sha256, "valid": self.valid.sha256}


def prepare(recipe: Recipe, folder: Path | None, say: Say) -> Texts:
    test = read_test(recipe) if recipe.data.test else None
    window = window_of(recipe)
    running = read_running(recipe, folder, say, ended=True)
    must_be_enough(recipe, running.train, running.valid, window)
    return Texts(recipe, running.tokenizer, running.train, running.valid, test, running.start)


def read_test(recipe: Recipe) -> TestText:
    data = recipe.data
    must_be_there(data.test)
    return TestText(data.test, data.train, data.column, data.document_mask, data.stride)


def must_be_enough(recipe: Recipe, training: Text, validation: Text, window: int) -> None:
    train, valid = len(training.ids), len(validation.ids)
    if train < window + 1:
        raise UserError(
            f"data.train has {train:,} tokens to train on, fewer than one window of {window:,} and the token after it; give "
            f"more text, or set data.window={max(1, train // 2)}."
        )
    if valid < 2:
        cure = "give more text there" if recipe.data.valid else "raise data.valid_fraction, or give data.valid"
        raise UserError(f"there is {valid:,} token to validate with, and none can be predicted from it; {cure}.")
