"""Texts with blanks in them, typed as [MASK] or <mask>, become ids with the one piece that hides a word.

Everywhere else the name of a special piece is text, when a person wrote it. Here one of them is taken at its word: a copy of the
tokenizer no longer holds that piece for special, so that it finds it, with the spaces around it treated as its makers said.
Where a tokenizer begins every stretch of text with a space (bpe, unigram, word), it does so behind a blank too; before
punctuation, where no text it was trained on has one, that space is taken out again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import tokenizers

from regard.core.errors import UserError
from regard.text.pretokenize import SPACE
from regard.text.specials import NAMES
from regard.text.tokenizer import Tokenizer

TYPED = re.compile("|".join(map(re.escape, NAMES["mask"])))


class Blanks:
    def __init__(self, tokenizer: Tokenizer) -> None:
        if tokenizer.roles.mask is None:
            raise UserError(
                "this vocabulary has no piece that hides a word, such as [MASK]; use a model that was trained to fill in words."
            )
        self.tokenizer, self.mask = tokenizer, tokenizer.roles.mask
        self.name = str(tokenizer.raw.id_to_token(self.mask))
        settings = json.loads(tokenizer.raw.to_str())
        for piece in settings["added_tokens"]:
            if piece["id"] == self.mask:
                piece |= {"special": False, "normalized": False}
        self.finds = Tokenizer(tokenizers.Tokenizer.from_str(json.dumps(settings)))
        space = tokenizer.raw.token_to_id(SPACE)
        self.space = (tokenizer.roles.unk if space is None else space) if tokenizer.decodes("Metaspace") else None

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        found = self.finds.encode_batch([TYPED.sub(lambda _: self.name, text) for text in texts])
        return found if self.space is None else [self._closed(text, ids) for text, ids in zip(texts, found)]

    def _closed(self, text: str, ids: list[int]) -> list[int]:
        """Without a space between a blank and punctuation."""
        before = (bool(re.match(r"[^\w\s]", text[blank.end() :])) for blank in TYPED.finditer(text))
        after_blank = (n + 1 for n, i in enumerate(ids) if i == self.mask)
        gone = {n for n, closed in zip(after_blank, before) if closed and ids[n : n + 1] == [self.space]}
        return [i for n, i in enumerate(ids) if n not in gone]
