"""The words of a vocabulary as people write them, of tokenizers that take words whole: `word` and `spaced`."""

from __future__ import annotations

from tokenizers import models

from regard.errors import UserError
from regard.text.pieces import SPACE
from regard.text.tokenizer import Tokenizer

LINE_END = "\n"


def whole_words(tokenizer: Tokenizer) -> list[str | None]:
    """By id; None for what is no word, such as specials and the line end. With a space before it or without, a word is one."""
    if not isinstance(tokenizer.raw.model, models.WordLevel):
        raise UserError(
            "word vectors are of whole words, and this vocabulary has pieces of words; set text.tokenizer=word or "
            "text.tokenizer=spaced."
        )
    spaced = tokenizer.decodes("Metaspace")
    pieces = {i: piece for piece, i in tokenizer.raw.get_vocab(with_added_tokens=True).items() if i not in tokenizer.specials}
    found = [pieces.get(i) for i in range(len(tokenizer))]
    return [_word(piece.removeprefix(SPACE) if spaced else piece) if piece is not None else None for piece in found]


def _word(piece: str) -> str | None:
    return piece if piece.strip() else None
