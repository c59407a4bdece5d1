"""Which pieces go on with a word that has begun, so that a word can be taken as a whole.

    WordPiece              "##ing" goes on, "play" begins
    BPE, unigram           "▁play" begins; what has no "▁" goes on
    byte-level BPE         "Ġplay" begins; what has no "Ġ" goes on

In the last two, a piece of punctuation alone begins something new, and letters that follow it without a space count to it.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

import numpy as np
import tokenizers
from tokenizers import models

from regard.errors import UserError
from regard.text.pieces import BYTE_LETTERS, SPACE

SPACES = {letter for letter, byte in BYTE_LETTERS.items() if bytes([byte]).isspace()}


def continuing(raw: tokenizers.Tokenizer) -> np.ndarray:
    """True for the ids that do."""
    pieces = raw.get_vocab(with_added_tokens=True)
    goes_on = _rule(raw, pieces)
    found = np.zeros(1 + max(pieces.values()), bool)
    for piece, number in pieces.items():
        found[number] = goes_on(piece)
    for number in raw.get_added_tokens_decoder():
        found[number] = False
    return found


def _rule(raw: tokenizers.Tokenizer, pieces: dict[str, int]) -> Callable[[str], bool]:
    added = {piece.content for piece in raw.get_added_tokens_decoder().values()}
    steps = b"".join(step.__getstate__() for step in (raw.pre_tokenizer, raw.decoder) if step is not None)
    match raw.model:
        case models.WordPiece(continuing_subword_prefix=prefix):
            return lambda piece: piece.startswith(prefix)
        case models.BPE() | models.Unigram() if max((len(piece) for piece in pieces if piece not in added), default=0) < 2:
            raise _no_words("characters or bytes, which do not tell where a word ends")
        case models.BPE() if b'"ByteLevel"' in steps:
            return lambda piece: piece[0] not in SPACES and not all(map(_punctuation, piece))
        case models.BPE() | models.Unigram() if b'"Metaspace"' in steps:
            return lambda piece: not piece.startswith(SPACE) and not all(map(_punctuation, piece))
        case models.WordLevel():
            raise _no_words("whole words or single characters already")
    raise _no_words("of a kind that does not tell where a word ends")


def _punctuation(letter: str) -> bool:
    return unicodedata.category(letter)[0] in "PS"


def _no_words(what: str) -> UserError:
    return UserError(f"objective.whole_words=true joins pieces of words, but this vocabulary's are {what}; set it to false.")
