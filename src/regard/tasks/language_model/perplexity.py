"""Scores of a language model on a test text: perplexity and bits per byte, beside compressors and trigrams."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from regard.core.errors import UserError
from regard.data.batching.token_cache import Tokens, tokenise
from regard.data.sources.text import documents, files
from regard.metrics.likelihood import Ids, Likelihood
from regard.metrics.lm_baselines import baselines
from regard.text.tokenizer import Tokenizer

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
