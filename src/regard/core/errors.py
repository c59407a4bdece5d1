"""Errors that a person can correct: the command line prints the sentence and exits with 2, without a traceback."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice

from regard.core.terminal import quoted

LONGEST = 1000
"""Characters of a sentence: with two long paths in it one may have many hundreds."""

MANY, SHOWN = 1000, 100
"""Choices that are looked at, and characters of each: an untrusted file may have a million names, or one of a million letters."""


class UserError(Exception):
    """One sentence or two: what was given (file, line, key), what was expected, what to do or type.

    It may quote an untrusted file, so it is always one line of bounded length without control characters.
    """

    def __init__(self, sentence: str) -> None:
        super().__init__(quoted(sentence, LONGEST))


def nearest(given: str, choices: Iterable[str], prefix: str = "") -> str:
    """Return the end of an error sentence: the nearest choice if one is close, and all choices if they are few.

    `prefix` is written before the nearest choice, as the section before a key, and is not compared.
    """
    choices = sorted(choice[:SHOWN] for choice in islice(choices, MANY))
    close = get_close_matches(given[:SHOWN], choices, n=1, cutoff=0.5)
    listed = f" (known: {', '.join(choices)})" if 0 < len(choices) <= (6 if close else 24) else ""
    return f"{listed}; did you mean {prefix + close[0]!r}?" if close else f"{listed}."
