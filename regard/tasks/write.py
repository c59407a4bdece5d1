"""The task `write`: running text, one vocabulary, and a decoder that learns to continue it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from regard.data.loader import Source
from regard.data.texts import documents, files
from regard.data.token_file import Tokens, tokenise
from regard.data.windows import Windows
from regard.errors import UserError
from regard.families.gpt import GPT, count
from regard.model.count import Part
from regard.objective.loss import Objective
from regard.objective.next_token import NextTokenLoss
from regard.recipe import Recipe
from regard.tasks.opening import vocabulary_of, window_of
from regard.tasks.perplexity import TestText
from regard.tasks.run import Say
from regard.tasks.start import VOCABULARY, Start, start_of, vocabulary
from regard.tasks.task import Task
from regard.tasks.writer import Writer
from regard.text.tokenizer import Tokenizer
from regard.train.loop import Validation

ENOUGH = 50_000_000  # characters of text to learn a vocabulary from
SAMPLE_TOKENS = 64


class Text(NamedTuple):
    """A stretch of a token file, as whole documents or the part of one."""

    ids: np.ndarray
    starts: np.ndarray
    sha256: str  # of the file it is from, and where it lies in it

    @classmethod
    def of(cls, tokens: Tokens, begin: int, end: int) -> Text:
        inside = tokens.starts[np.searchsorted(tokens.starts, begin) : np.searchsorted(tokens.starts, end)]
        starts = inside - begin if len(inside) and inside[0] == begin else np.concatenate([[0], inside - begin])
        return cls(tokens.ids[begin:end], starts.astype(np.int64), f"{tokens.sha256}:{begin}-{end}")


@dataclass(frozen=True)
class Texts:
    """Prepared text (see `task.Prepared`)."""

    recipe: Recipe
    tokenizer: Tokenizer
    train: Text
    valid: Text
    test: TestText | None
    start: Start | None  # none too where the run has weights of its own by now
    unit = "tokens"

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

    def objective(self) -> NextTokenLoss:
        return NextTokenLoss(self.recipe.objective)

    def source(self, *, packed: bool) -> Source:
        return self._windows(self.train, packed)

    def _windows(self, text: Text, packed: bool = False) -> Windows:
        train, ended = self.recipe.train, self.tokenizer.roles.eos is not None
        apart = self.recipe.data.apart
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
            writer = Writer.validating(model, self.tokenizer, self.window, SAMPLE_TOKENS)  # type: ignore[arg-type]
            begun = self.tokenizer.decode(opening)
            return Validation({"nll": nll, "perplexity": float(np.exp(min(nll, 50.0)))}, [f"{begun}|{writer(begun)}"])

        return validate

    def example(self) -> tuple[Part, int]:
        return count(self.recipe.model, self._vocabulary, self.window), self.window

    def amounts(self) -> dict[str, str]:
        return {
            name: f"{len(text.ids):,} tokens in {len(text.starts):,} document{'s' if len(text.starts) > 1 else ''}"
            for name, text in (("train", self.train), ("valid", self.valid))
        }

    def fingerprints(self) -> dict[str, str]:
        return {"train": self.train.sha256, "valid": self.valid.sha256}


def prepare(recipe: Recipe, folder: Path | None, say: Say) -> Texts:
    """Learn or take the vocabulary, number the text, cut off what is held out. Nothing is written but the cache of numbers."""
    data = recipe.data
    if not data.train:
        raise UserError("data.train is empty; give a text file, a folder, a pattern such as 'books/*.txt', or hf:NAME.")
    test = read_test(recipe) if data.test else None
    _refuse_what_is_not_there(data.valid)
    window_of(recipe)
    begun = folder is not None and (folder / VOCABULARY).exists()
    start = start_of(recipe.task.start) if recipe.task.start and not begun else None
    tokenizer = vocabulary(recipe, folder, start, lambda: list(_enough(documents(data.train, data.column), say)))
    eos = tokenizer.roles.eos
    train = tokenise(data.train, data.column, tokenizer, eos=eos, say=say)
    if data.valid:
        valid = tokenise(data.valid, data.column, tokenizer, eos=eos, say=say)
        parts = Text.of(train, 0, len(train.ids)), Text.of(valid, 0, len(valid.ids))
    else:
        cut = _cut(train, data.held_out)
        parts = Text.of(train, 0, cut), Text.of(train, cut, len(train.ids))
    prepared = Texts(recipe, tokenizer, *parts, test, start)
    _must_be_enough(prepared)
    amounts = prepared.amounts()
    bytes_each = f"{train.bytes / len(train.ids):.2f} bytes each"
    say(f"text: {recipe.text.tokenizer}, {len(tokenizer):,} tokens in the vocabulary, {bytes_each}")
    say(f"train: {amounts['train']}; valid: {amounts['valid']}{'' if data.valid else ', held out of train'}")
    return prepared


def read_test(recipe: Recipe) -> TestText:
    data = recipe.data
    _refuse_what_is_not_there(data.test)
    return TestText(data.test, data.train, data.column, data.apart, data.stride)


def _refuse_what_is_not_there(where: tuple[str, ...]) -> None:
    """Before hours are spent on other text."""
    for entry in where:
        files(entry)


def _must_be_enough(texts: Texts) -> None:
    train, valid, window = len(texts.train.ids), len(texts.valid.ids), texts.window
    if train < window + 1:
        raise UserError(
            f"data.train has {train:,} tokens to train on, fewer than one window of {window:,} and the token after it; give "
            f"more text, or set data.window={max(1, train // 2)}."
        )
    if valid < 2:
        cure = "give more text there" if texts.recipe.data.valid else "raise data.held_out, or give data.valid"
        raise UserError(f"there is {valid:,} token to validate with, and none can be predicted from it; {cure}.")


def _cut(tokens: Tokens, held_out: float) -> int:
    """Where the held-out end begins: between documents where there are enough of them, else within one."""
    wanted = round(len(tokens.ids) * (1 - held_out))
    start = int(tokens.starts[min(int(np.searchsorted(tokens.starts, wanted)), len(tokens.starts) - 1)])
    return start if start and abs(start - wanted) < held_out / 2 * len(tokens.ids) else wanted


def _enough(texts: Iterator[str], say: Say) -> Iterator[str]:
    read = 0

    def room(text: str) -> bool:
        nonlocal read
        read += len(text)
        return read <= ENOUGH or read == len(text)

    yield from (text[:ENOUGH] for text in takewhile(room, texts))
    if read > ENOUGH:
        say(f"text: the vocabulary is learned from the first {ENOUGH / 1e6:.0f} million characters")


TASK = Task(prepare, read_test, Writer.of, says=False)
