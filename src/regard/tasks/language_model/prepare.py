"""The task `language_model`: running text, one vocabulary, and a decoder that learns to continue it."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

from torch import nn

from regard.core.errors import UserError
from regard.data.batching.streams import Streams
from regard.data.batching.windows import Windows
from regard.families import build_model
from regard.families.flops import Part
from regard.families.gpt import GPT
from regard.model.memory.segments import reading
from regard.objectives.base import Objective
from regard.runs.folder import Say
from regard.runs.load import memory_of, window_of
from regard.runs.prepared import Measured, with_perplexity
from regard.runs.recipe import Recipe
from regard.tasks.corpus import RunningText, TestText, Text, must_be_there, read_running
from regard.tasks.language_model.predict import TextGenerator
from regard.training.loop import Validation

SAMPLE_TOKENS = 64


@dataclass(frozen=True, kw_only=True)
class Texts(RunningText):
    """Running text for a language model."""

    @property
    def window(self) -> int:
        return window_of(self.recipe)

    def build(self, seed: int) -> nn.Module:
        return cast(nn.Module, build_model(self.recipe.model, seed, vocabulary=self.vocabulary_size))

    @property
    def memory(self) -> int:
        """Return the tokens of memory in validation; 0 without a memory."""
        return memory_of(self.recipe)

    def source(self, *, packed: bool) -> Windows | Streams:
        return self._streams(self.train) if self.memory else self._windows(self.train, packed)

    def _streams(self, text: Text) -> Streams:
        return Streams(text.ids, self.window, self.recipe.train.tokens_per_batch, self.recipe.train.seed)

    def _windows(self, text: Text, packed: bool = False) -> Windows:
        train, ended = self.recipe.train, self.tokenizer.roles.eos is not None
        apart = self.recipe.data.document_mask
        return Windows(
            text.ids, self.window, train.tokens_per_batch, train.seed, text.starts, ended=ended, apart=apart, packed=packed
        )

    def valid_batches(self) -> Windows | Streams:
        return self._streams(self.valid) if self.memory else self._windows(self.valid)

    def measure(self, model: nn.Module, objective: Objective, batches: Any) -> Measured:
        with reading(model, self.window, self.memory) if self.memory else nullcontext():
            return super().measure(model, objective, batches)

    def report(self, model: nn.Module, measured: Measured) -> Validation:
        """Report the loss on the validation text, and how the model continues its beginning."""
        begun = self.tokenizer.decode(self.valid.ids[: min(16, self.window // 2)].tolist())
        with reading(model) if self.memory else nullcontext():
            writer = TextGenerator.validating(cast(GPT, model), self.tokenizer, self.window, SAMPLE_TOKENS, self.memory)
            return Validation(with_perplexity(measured.means), [f"{begun}|{writer(begun)}"])

    def example(self) -> tuple[Part, int]:
        return self.count(self.window), self.window


Kind = TypeVar("Kind", bound=Texts)


def prepare(recipe: Recipe, folder: Path | None, say: Say) -> Texts:
    return prepare_as(Texts, recipe, folder, say)


def prepare_as(kind: type[Kind], recipe: Recipe, folder: Path | None, say: Say) -> Kind:
    """Read and check the text, as one for a language model or a kind of it."""
    test = read_test(recipe) if recipe.data.test else None
    window, _ = window_of(recipe), memory_of(recipe)
    running = read_running(recipe, folder, say, ended=True)
    must_be_enough(recipe, running.train, running.valid, window)
    return kind.of(recipe, running, test)


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
