"""Reader of a retriever: the last turns between special tokens, and vectors of many of them, in batches of similar length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch

from regard.core.errors import UserError
from regard.data.batching.labelled import SpecialTokens
from regard.data.batching.pairs import EncodedExchanges, Ragged, pad_rows
from regard.data.sources.dialogues import Exchange, recent
from regard.decode.request import in_batches
from regard.families import marks_of
from regard.families.two_tower import Side, TwoTower
from regard.runs.recipe import Recipe
from regard.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class TurnReader:
    """Turns become start turn between turn end; a reply is a context of one turn."""

    tokenizer: Tokenizer
    marks: SpecialTokens
    turns: int
    room: int  # tokens of a text, marks counted

    @classmethod
    def of(cls, recipe: Recipe, tokenizer: Tokenizer) -> TurnReader:
        room, most = recipe.data.maximum_tokens, recipe.model.context
        if most is not None and room > most:
            raise UserError(
                f"data.maximum_tokens={room} is more than model.maximum_length={most} positions; set it to {most} or less."
            )
        return cls(tokenizer, marks_of(recipe.model, tokenizer.roles), recipe.data.turns, room)

    def encode(self, contexts: Sequence[Sequence[str]]) -> Ragged:
        """The last turns of each, the oldest left out where there is no room; of one too long for itself, the beginning."""
        texts = sorted({turn for context in contexts for turn in context})
        ids = dict(zip(texts, self.tokenizer.encode_batch(texts)))
        rows = []
        for context in contexts:
            kept = recent(context, self.turns, self.room - 1, lambda turn: len(ids[turn]))
            joined = chain.from_iterable([self.marks.between, *ids[turn]] for turn in kept)
            rows.append([self.marks.start, *list(joined)[1 : self.room - 1], self.marks.end])
        return Ragged(rows)

    def exchanges(self, found: Sequence[Exchange]) -> EncodedExchanges:
        replies = [exchange.reply for exchange in found]
        number = {reply: n for n, reply in enumerate(dict.fromkeys(replies))}
        read = self.encode([exchange.context for exchange in found]), self.encode([(reply,) for reply in replies])
        return EncodedExchanges(*read, np.array([number[reply] for reply in replies]))


@torch.no_grad()
def vectors(model: TwoTower, reader: TurnReader, side: Side, texts: Sequence[Sequence[str]], budget: int) -> np.ndarray:
    """x_ND, a row of length 1 for each in the order given; `budget` is the padded size of a batch."""
    found, device = np.zeros((len(texts), model.body.config.width), np.float32), next(model.parameters()).device
    if not len(texts):
        return found
    ids = reader.encode(texts)
    for rows in in_batches(ids.lengths.tolist(), budget):
        ids_BL, lengths_B = (part.to(device) for part in pad_rows(*ids.take(np.array(rows))))
        found[rows] = model(ids_BL, lengths_B, side).float().cpu().numpy()
    return found
