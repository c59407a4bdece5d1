"""The [text] section of a recipe: how text becomes numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from regard.core.errors import UserError
from regard.text.specials import SPECIALS

Kind = Literal["bpe", "wordpiece", "unigram", "word", "character", "byte", "byte-bpe", "spaced"]  # those that are learned here
KINDS: tuple[Kind, ...] = get_args(Kind)
BYTES = 256


@dataclass(frozen=True, kw_only=True)
class TextConfig:
    tokenizer: Literal[Kind, "public"] = "bpe"  # public: it came with the checkpoint that training started from
    size: int = 8000  # the most pieces a vocabulary may hold, specials included; byte needs none: 0
    lowercase: bool = False
    minimum_count: int = 1  # words, characters or merges seen less often are not kept
    vectors: str = ""  # of words, to begin with: a run of word vectors or a file of them; for word and spaced
    freeze_vectors: bool = False  # they stay as they are

    def __post_init__(self) -> None:
        if self.tokenizer != "public":
            check_size(self.tokenizer, self.size, self.minimum_count)


@dataclass(frozen=True, kw_only=True)
class NoTextConfig:
    """The empty section of tasks without text. What others ask of a vocabulary are constants here, and no settings."""

    tokenizer = "none"
    size = 0
    vectors, freeze_vectors = "", False


@dataclass(frozen=True, kw_only=True)
class PairTextConfig(TextConfig):
    joint: bool = True  # one vocabulary for source and target, or one each


def check_size(kind: Kind, size: int, minimum_count: int) -> None:
    """Refuse sizes that cannot work whatever the text is; called by the config and by the tokenizer."""
    if kind != "byte" and size <= len(SPECIALS):
        raise UserError(f"text.size={size} leaves no room beside the {len(SPECIALS)} specials. Set it to 5 or more.")
    least = len(SPECIALS) + BYTES
    if kind == "byte-bpe" and size < least:
        raise UserError(
            f"text.size={size} is too small for byte-bpe, which begins with {len(SPECIALS)} specials + {BYTES} bytes = {least}. "
            f"Set it above {least}, or use text.tokenizer=byte, which has nothing to learn."
        )
    if minimum_count < 1:
        raise UserError(f"text.minimum_count={minimum_count} is not a count. Set it to 1 or more.")
