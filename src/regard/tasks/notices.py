"""Words of the input that a model's vocabulary has not: it reads them all as one and the same mark, so people are told which.

A sparse pattern that leaves nothing out of short texts: said wherever somebody could take it for another model than `full`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from regard.core.terminal import aside, quoted
from regard.families.published_sizes import Bodies, depth
from regard.model.visibility import causal, full
from regard.model.visibility.full_length import LONGEST, whole_up_to
from regard.model.visibility.parse import parse_visibility
from regard.runs.folder import Say
from regard.runs.protocols import Predictor
from regard.text.tokenizer import NOTED, Tokenizer

NAMED, LONGEST_WORD = 12, 40  # words, and characters of one


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
    return ", ".join(quoted(word, LONGEST_WORD) for word in words[:NAMED]) + more


MARKS = 2  # around a text


def seen_whole(config: Any) -> int | None:
    """The most tokens of a text in which this model's pattern leaves out nothing; None where it is no pattern that could."""
    if not isinstance(config, Bodies) or config.mixer == "conv":
        return None
    pattern = parse_visibility(config.visibility)
    readers, writers = depth(config)
    if pattern == full or (pattern == causal and not readers):
        return None
    sides = [whole_up_to(pattern)] if readers else []
    return min([*sides, *([whole_up_to(pattern, back=True)] if writers else [])])


def told_whole(config: Any) -> str | None:
    """For people who choose a pattern."""
    if (most := seen_whole(config)) is None or most < 2:
        return None
    least = "at least " if most == LONGEST else ""
    return f"{config.visibility} leaves out nothing of a text of up to {least}{most:,} tokens: there it is the same as full"


def told_of_text(answers: Predictor, text: str) -> str | None:
    """For people who look at one text."""
    config = getattr(getattr(answers.model, "body", answers.model), "config", None)
    most, tokenizer = seen_whole(config), tokenizer_of(answers)
    if config is None or most is None or tokenizer is None or len(tokenizer.encode(text)) + MARKS > most:
        return None
    return f"model.visibility={config.visibility} leaves out nothing of this text, so what is shown is that of full attention."
