"""Running text for a task that learns from it: the vocabulary, the text as numbers, and a part that is held out.

And the scores of a language model on a test text: perplexity and bits per byte, beside compressors and trigrams.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from torch import nn

from regard.core.errors import UserError
from regard.data.batching.token_cache import Tokens, tokenise
from regard.data.sources.text import Part, documents, files, parts
from regard.metrics.likelihood import Ids, Likelihood
from regard.metrics.lm_baselines import baselines
from regard.objectives.base import Objective
from regard.runs.folder import Say
from regard.runs.prepared import Measured, PreparedText
from regard.runs.pretrained import InitCheckpoint, has_vocabulary, start_to_train, vocabulary
from regard.runs.recipe import Recipe
from regard.text.tokenizer import Tokenizer

ENOUGH = 50_000_000  # characters of text to learn a vocabulary from
Change = Callable[[Tokenizer], Tokenizer]


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

    @property
    def amount(self) -> str:
        return f"{len(self.ids):,} tokens in {len(self.starts):,} document{'s' if len(self.starts) > 1 else ''}"


class Running(NamedTuple):
    tokenizer: Tokenizer
    train: Text
    valid: Text
    start: InitCheckpoint | None  # none too where the run has weights of its own by now


@dataclass(frozen=True, kw_only=True)
class RunningText(PreparedText):
    """Running text, of which a part is for validation."""

    train: Text
    valid: Text

    @classmethod
    def of(cls, recipe: Recipe, running: Running, test: Any) -> Self:
        tokenizer, train, valid, start = running
        return cls(recipe=recipe, tokenizer=tokenizer, train=train, valid=valid, test=test, start=start)

    def measure(self, model: nn.Module, objective: Objective, batches: Any) -> Measured:
        return super().measure(model, objective, batches.in_order())

    def amounts(self) -> dict[str, str]:
        return {"train": self.train.amount, "valid": self.valid.amount}

    def fingerprints(self) -> dict[str, str]:
        return {"train": self.train.sha256, "valid": self.valid.sha256}


def read_running(recipe: Recipe, folder: Path | None, say: Say, *, ended: bool, complete: Change = lambda t: t) -> Running:
    """Learn or take the vocabulary, number the text, cut off what is held out. Nothing is written but the cache of numbers.

    Documents are `ended` by an end token, if there is one. What a learned vocabulary lacks for the task, `complete` adds.
    """
    data = recipe.data
    if not data.train:
        raise UserError("data.train is empty; give a text file, a folder, a pattern such as 'books/*.txt', or hf:NAME.")
    must_be_there(data.valid)
    begun, start = has_vocabulary(folder), start_to_train(recipe, folder)
    tokenizer = vocabulary(recipe, folder, start, lambda: list(_enough(parts(data.train, data.column), say)))
    tokenizer = tokenizer if begun or start else complete(tokenizer)
    eos = tokenizer.roles.eos if ended else None
    train = tokenise(data.train, data.column, tokenizer, eos=eos, say=say)
    if data.valid:
        valid = tokenise(data.valid, data.column, tokenizer, eos=eos, say=say)
        texts = Text.of(train, 0, len(train.ids)), Text.of(valid, 0, len(valid.ids))
    else:
        cut = _cut(train, data.valid_fraction)
        texts = Text.of(train, 0, cut), Text.of(train, cut, len(train.ids))
    bytes_each = f"{train.bytes / len(train.ids):.2f} bytes each"
    say(f"text: {recipe.text.tokenizer}, {len(tokenizer):,} tokens in the vocabulary, {bytes_each}")
    found = Running(tokenizer, *texts, start)
    say(f"train: {found.train.amount}; valid: {found.valid.amount}{'' if data.valid else ', held out of train'}")
    return found


def must_be_there(where: tuple[str, ...]) -> None:
    """Refuse files that are missing, before hours are spent on others."""
    for entry in where:
        files(entry)


def _cut(tokens: Tokens, held_out: float) -> int:
    """Return the token where the validation part begins: between documents where there are enough of them, else within one."""
    wanted = round(len(tokens.ids) * (1 - held_out))
    start = int(tokens.starts[min(int(np.searchsorted(tokens.starts, wanted)), len(tokens.starts) - 1)])
    return start if start and abs(start - wanted) < held_out / 2 * len(tokens.ids) else wanted


def _enough(found: Iterator[Part], say: Say) -> Iterator[str]:
    """Whole documents as long as there is room for them, and of the first as much as there is."""
    read, first = 0, True
    document: list[str] = []
    for part in found:
        document.append(part.text)
        read += len(part.text)
        if read > ENOUGH:
            say(f"text: the vocabulary is learned from the first {ENOUGH / 1e6:.0f} million characters")
            if first:
                document[-1] = document[-1][: len(part.text) - (read - ENOUGH)]
                yield from document
            return
        if part.ends:
            yield from document
            document, first = [], False


PIECE = 128  # tokens of running text that are inspected together


def text_pieces(texts: Iterable[str], tokenizer: Tokenizer, room: int) -> Iterator[str]:
    """Yield running text in pieces of at most `room` tokens."""
    room = min(PIECE, room)
    for text in texts:
        ids = tokenizer.encode(text)
        for start in range(0, len(ids), room):
            piece = tokenizer.decode(ids[start : start + room])
            if piece.strip():
                yield piece


SMALL = 20_000_000  # bytes of training text: up to here the comparisons take seconds

Score = Callable[[Sequence[Ids], int], list[np.ndarray]]


@dataclass(frozen=True)
class TestText:
    """The places of the test text, and of the training text, from which baselines learn."""

    test: tuple[str, ...]
    train: tuple[str, ...]
    column: str
    apart: bool  # each document is predicted by itself
    stride: int

    def tokens(self, where: tuple[str, ...], tokenizer: Tokenizer) -> Tokens:
        return tokenise(where, self.column, tokenizer, eos=tokenizer.roles.eos, say=lambda line: None)


@dataclass(frozen=True)
class Perplexity:
    likelihood: Likelihood
    others: dict[str, float] = field(default_factory=dict)  # bits per byte
    unread: str = ""  # why there are no others, where the training text could not be read
    outputs: tuple[str, ...] = ()

    @classmethod
    def of(cls, text: TestText, tokenizer: Tokenizer, start: int, score: Score) -> Perplexity:
        tokens = text.tokens(text.test, tokenizer)
        parts = np.split(tokens.ids, tokens.starts[1:]) if text.apart else [tokens.ids]
        scores, written = score(parts, text.stride), list(documents(text.test, text.column))
        likelihood = Likelihood.of(scores, written)
        try:
            return cls(likelihood, _others(text, tokens, "\n".join(written), tokenizer, start))
        except UserError as error:
            return cls(likelihood, unread=str(error))

    def lines(self) -> list[str]:
        others = [f"                 {bits:.4f}  {name}" for name, bits in self.others.items()]
        return [*self.likelihood.lines(), *others, *([f"not compared with others: {self.unread}"] if self.unread else [])]

    def as_dict(self) -> dict[str, Any]:
        return {**self.likelihood.as_dict(), "others_bits_per_byte": self.others}


def _others(text: TestText, test: Tokens, written: str, tokenizer: Tokenizer, start: int) -> dict[str, float]:
    if not text.train or sum(path.stat().st_size for entry in text.train for path in files(entry)) > SMALL:
        return {}
    train = text.tokens(text.train, tokenizer)
    if train.bytes > SMALL:
        return {}
    training = "\n".join(documents(text.train, text.column))
    return baselines(training, written, np.asarray(train.ids), np.asarray(test.ids), len(tokenizer), start)
