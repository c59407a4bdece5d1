"""Words of the input that a model's vocabulary has not: it reads them all as one and the same mark, so people are told which."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from regard.tasks.run import Say, aside
from regard.terminal import quoted
from regard.text.tokenizer import NOTED, Tokenizer

NAMED, LONGEST = 12, 40  # words, and characters of one


def tokenizer_of(answers: Any) -> Tokenizer | None:
    """What its texts are read by, a translator's that of the source; None where texts are no pieces, as those of word vectors."""
    if hasattr(answers, "tokenizers"):
        found: Tokenizer = answers.tokenizers.source
        return found
    return getattr(answers, "tokenizer", None) or getattr(getattr(answers, "reader", None), "tokenizer", None)


def must_read_pieces(answers: Any) -> Tokenizer:
    found = tokenizer_of(answers)
    assert found is not None
    return found


@contextmanager
def telling_unknown(answers: Any, say: Say = aside) -> Iterator[None]:
    """Whatever is read meanwhile; said once, in the end."""
    tokenizer = tokenizer_of(answers)
    if tokenizer is None:
        yield
        return
    with tokenizer.noting_unknown() as words:
        yield
    if words:
        say(f"unknown: {_listed(list(words))} (not in the vocabulary of this model, to which all unknown words are the same)")


def _listed(words: Sequence[str]) -> str:
    left = len(words) - NAMED
    more = f" and {'at least ' * (len(words) == NOTED)}{left:,} more" if left > 0 else ""
    return ", ".join(quoted(word, LONGEST) for word in words[:NAMED]) + more
