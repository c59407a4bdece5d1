"""Limits of the length of one text: a longer one is refused at once, before minutes of work."""

from __future__ import annotations

from regard.core.errors import UserError

LONGEST = 1_000_000  # characters of a text to predict from: a long novel; a model's own limit is nearly always lower
LONGEST_TURN = 20_000  # characters of a turn of a conversation, and of a text to look into
LONGEST_SOURCE = 10_000  # tokens that are read and then written about, where positions do not end: the time grows with both


def check_length(text: str, where: str, most: int = LONGEST) -> str:
    """The text as it is, unless it is too long; `where` says which of many it is."""
    if len(text) > most:
        raise UserError(f"{where} has {len(text):,} characters, and one text may have {most:,}; split it, one part on each line.")
    return text
