"""A conversation in the form of a model's chat template, whose special tokens count as such."""

from __future__ import annotations

from functools import lru_cache

import tokenizers

from regard.text.tokenizer import Tokenizer


class Transcript(str):
    """A text that a template wrote. In any other text the name of a special token, such as <eos>, is plain text."""

    __slots__ = ()


@lru_cache(maxsize=8)  # a large vocabulary takes half a second
def with_specials(tokenizer: Tokenizer) -> tokenizers.Tokenizer:
    """Return a copy that reads the names of special tokens as these tokens."""
    raw = tokenizers.Tokenizer.from_str(tokenizer.raw.to_str())
    raw.encode_special_tokens = False
    return raw
