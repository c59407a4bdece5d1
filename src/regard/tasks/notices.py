"""Notices about an input: words that a model's vocabulary lacks, which it reads as one and the same token.

And sparse patterns that hide nothing of a short text, so that the model is the same as with `full`. A text that is longer than
the limits is refused at once, before minutes of work.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from regard.core.errors import UserError
from regard.core.terminal import print_stderr, quoted
from regard.families import family_of
from regard.model.visibility import causal, full
from regard.model.visibility.combine import LONGEST as LONGEST_PATTERN
from regard.model.visibility.combine import whole_up_to
from regard.model.visibility.parse import parse_visibility
from regard.runs.folder import Say
from regard.runs.protocols import Predictor
from regard.text.tokenizer import NOTED, Tokenizer

LONGEST = 1_000_000  # characters of a text to predict from: a long novel; a model's own limit is nearly always lower
LONGEST_TURN = 20_000  # characters of a turn of a conversation, and of a text to look into
LONGEST_SOURCE = 10_000  # tokens that are read and then written about, where positions do not end: the time grows with both


def check_length(text: str, where: str, most: int = LONGEST) -> str:
    """The text as it is, unless it is too long; `where` says which of many it is."""
    if len(text) > most:
        raise UserError(f"{where} has {len(text):,} characters, and one text may have {most:,}; split it, one part on each line.")
    return text


NAMED, LONGEST_WORD = 12, 40  # words, and characters of one


def must_read_pieces(predictor: Predictor) -> Tokenizer:
    """Return the tokenizer of what a model reads; word vectors have none, and are not asked."""
    assert predictor.tokenizer is not None
    return predictor.tokenizer


@contextmanager
def report_unknown_words(answers: Predictor, say: Say = print_stderr) -> Iterator[None]:
    """Whatever is read meanwhile; said once, in the end."""
    tokenizer = answers.tokenizer
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
    if not hasattr(config, "visibility") or not family_of(config).has("blocks") or config.mixer == "conv":
        return None
    pattern = parse_visibility(config.visibility)
    readers, writers = config.depth
    if pattern == full or (pattern == causal and not readers):
        return None
    sides = [whole_up_to(pattern)] if readers else []
    return min([*sides, *([whole_up_to(pattern, back=True)] if writers else [])])


def pattern_notice(config: Any) -> str | None:
    """Return the notice for a recipe: up to which length its pattern is the same as full."""
    if (most := seen_whole(config)) is None or most < 2:
        return None
    least = "at least " if most == LONGEST_PATTERN else ""
    return f"{config.visibility} leaves out nothing of a text of up to {least}{most:,} tokens: there it is the same as full"


def text_notice(answers: Predictor, text: str) -> str | None:
    """Return the notice for one text that a pattern hides nothing of."""
    config = getattr(getattr(answers.model, "body", answers.model), "config", None)
    most, tokenizer = seen_whole(config), answers.tokenizer
    if config is None or most is None or tokenizer is None or len(tokenizer.encode(text)) + MARKS > most:
        return None
    return f"model.visibility={config.visibility} leaves out nothing of this text, so what is shown is that of full attention."
