"""The [text] section of a recipe: how text becomes numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Kind = Literal["bpe", "wordpiece", "unigram", "word", "character", "byte"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True, kw_only=True)
class TextConfig:
    tokenizer: Kind = "bpe"
    size: int = 8000  # the most pieces a vocabulary may hold, specials included; byte needs none: 0
    lowercase: bool = False
    minimum_count: int = 1  # words, characters or merges seen less often are not kept
    joint: bool = True  # one vocabulary for source and target, or one each
