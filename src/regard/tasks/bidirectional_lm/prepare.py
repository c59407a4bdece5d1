"""Prepare running text for two networks that predict it, one the next word, the other the previous one.

The trained model is then used by other tasks: `task.init_from=runs/elmo` in classification and tagging, `task.name=embedding` for
vectors.
"""

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
from regard.families.elmo import ELMo, count
from regard.model.flops import Part
from regard.objectives.base import Objective
from regard.objectives.bidirectional_lm import BidirectionalLMLoss
from regard.runs.folder import Say
from regard.runs.load import vocabulary_of, window_of
from regard.runs.pretrained import VOCABULARY
from regard.runs.recipe import Recipe
from regard.tasks.corpus import Running, Text, read_running
from regard.tasks.language_model.perplexity import TestText
from regard.tasks.language_model.prepare import must_be_enough, read_test
from regard.text.tokenizer import Tokenizer
from regard.training.loop import Validation

PARTS = ("ahead", "back")


@dataclass(frozen=True)
class ReadText:
    """Prepared text (see `task.Prepared`)."""

    recipe: Recipe
    running: Running
    test: TestText | None
    unit = "tokens"
    metric = "nll"

    @property
    def vocabularies(self) -> Mapping[str, Tokenizer]:
        return {VOCABULARY: self.running.tokenizer}

    @cached_property
    def _vocabulary(self) -> int:
        start = self.running.start
        return start.vocabulary if start else vocabulary_of(self.recipe, self.running.tokenizer)

    def model(self) -> ELMo:
        model = ELMo(self.recipe.model, self._vocabulary, self.recipe.train.seed)
        if self.running.start is not None:
            self.running.start.fill(model)
        return model

    def objective(self) -> BidirectionalLMLoss:
        return BidirectionalLMLoss()

    def source(self, *, packed: bool) -> Windows:
        return self._windows(self.running.train)

    def _windows(self, text: Text) -> Windows:
        train = self.recipe.train
        return Windows(text.ids, window_of(self.recipe), train.tokens_per_batch, train.seed, text.starts)

    def validator(self, objective: Objective) -> Callable[[nn.Module], Validation]:
        """Loss on the validation text, and how well each way expects it."""
        windows = self._windows(self.running.valid)

        @torch.no_grad()
        def validate(model: nn.Module) -> Validation:
            device, tokens, sums = next(model.parameters()).device, 0, dict.fromkeys(("nll", *PARTS), 0.0)
            for batch in windows.in_order():
                parts = objective(model, batch.to(device)).parts
                sums, tokens = {part: sums[part] + parts[part].item() for part in sums}, tokens + batch.tokens
            means = {part: total / tokens for part, total in sums.items()}
            perplexities = {f"{part}_perplexity": float(np.exp(min(means[part], 50.0))) for part in PARTS}
            return Validation({"nll": means["nll"], **(perplexities if np.isfinite(means["nll"]) else {})}, [])

        return validate

    def example(self) -> tuple[Part, int]:
        window = window_of(self.recipe)
        return count(self.recipe.model, self._vocabulary, window), window

    def amounts(self) -> dict[str, str]:
        return {"train": self.running.train.amount, "valid": self.running.valid.amount}

    def fingerprints(self) -> dict[str, str]:
        return {"train": self.running.train.sha256, "valid": self.running.valid.sha256}


def prepare(recipe: Recipe, folder: Path | None, say: Say) -> ReadText:
    if recipe.data.document_mask:
        raise UserError(
            "data.document_mask=true keeps documents that share a window apart, but a recurrent network carries its state from "
            "word to word; set data.document_mask=false: an end token tells it where a document ends."
        )
    test = read_test(recipe) if recipe.data.test else None
    window = window_of(recipe)
    running = read_running(recipe, folder, say, ended=True)
    must_be_enough(recipe, running.train, running.valid, window)
    return ReadText(recipe, running, test)
