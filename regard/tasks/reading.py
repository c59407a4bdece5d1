"""How a classifier reads: a text or a pair becomes ids between marks, and many of them, in batches of like length, scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from regard.data.batches import Ragged
from regard.data.labels import LabelledTexts, Marks, make_batch
from regard.decode.batching import in_batches
from regard.errors import UserError
from regard.families.classifier import Classifier, marks
from regard.families.sizes import context
from regard.recipe import Recipe
from regard.tasks.run import aside
from regard.text.tokenizer import Tokenizer

Text = str | tuple[str, str]  # or a pair of texts
Parts = tuple[str, ...]  # a text alone, or both of a pair
EITHER = 0  # texts at a time, where a model takes one as well as two
CACHED = 1024  # tokens of a batch: with more, a CPU waits for its memory


@dataclass(frozen=True)
class Reader:
    """How texts become the ids that a model was trained on."""

    tokenizer: Tokenizer
    marks: Marks
    cut: int  # to so many tokens; 0: not at all
    room: int | None  # positions the model has; None where they do not end

    @classmethod
    def of(cls, recipe: Recipe, tokenizer: Tokenizer) -> Reader:
        cut, room = recipe.data.maximum_tokens, context(recipe.model)
        if room is not None and cut > room:
            raise UserError(
                f"data.maximum_tokens={cut} is more than model.maximum_length={room} positions; set it to {room} or less."
            )
        return cls(tokenizer, marks(recipe.model, tokenizer.roles), cut, room)

    def encode(self, texts: Sequence[Parts], places: Sequence[str]) -> tuple[Ragged, np.ndarray, int]:
        """Ids with their marks, where second texts begin, how many were cut; one that does not fit is refused by its place."""
        pieces = iter(self.tokenizer.encode_batch([part for parts in texts for part in parts]))
        rows, cut = [[next(pieces) for _ in parts] for parts in texts], 0
        for ids, place in zip(rows, places):
            length = self.marks.length(ids)
            cut += 0 < self.cut < length
            if not self.cut and self.room is not None and length > self.room:
                raise UserError(
                    f"{place} is {length:,} tokens long, its marks counted, but the model has {self.room:,} positions; set "
                    f"data.maximum_tokens={self.room} to cut such texts, or take it out."
                )
        laid = [self.marks.around(ids, self.cut or self.marks.length(ids)) for ids in rows]
        return Ragged([ids for ids, _ in laid]), np.array([second for _, second in laid], np.int64), cut


def scores(model: Classifier, reader: Reader, texts: Sequence[Parts], places: Sequence[str], budget: int) -> np.ndarray:
    """The model's, a row for each text in the order given; `budget` is the padded size of a batch."""
    ids, seconds, cut = reader.encode(texts, places)
    if cut:
        aside(f"{cut:,} of {len(texts):,} texts were longer than data.maximum_tokens={reader.cut} and have been cut")
    return scores_of(model, LabelledTexts(ids, seconds, np.zeros(len(texts), np.int64)), budget)


@torch.no_grad()
def scores_of(model: Classifier, data: LabelledTexts, budget: int) -> np.ndarray:
    """The same of texts that have been read."""
    found, device = np.zeros((len(data), model.classes.project.weight.shape[0])), next(model.parameters()).device
    for rows in in_batches(data.ids.lengths.tolist(), min(budget, CACHED) if device.type == "cpu" else budget):
        batch = make_batch(data, np.array(rows)).to(device)
        found[rows] = model(batch.ids_BL, batch.words, batch.segments_BL).double().cpu().numpy()
    return found


def in_parts(texts: Sequence[Text], expected: int) -> list[Parts]:
    """Each as a tuple, once it is what the model was trained on: `expected` texts at a time."""
    found = [(text,) if isinstance(text, str) else tuple(text) for text in texts]
    for given in found:
        if len(given) != expected and not (expected == EITHER and len(given) in (1, 2)):
            trained = "pairs of texts" if expected == 2 else "single texts"
            raise UserError(f"{given[0][:40]!r}: this model was trained on {trained}; give {expected}, not {len(given)}.")
    return found


def as_typed(text: str, expected: int) -> Text:
    """The texts of a pair have a tab between them."""
    first, tab, second = text.partition("\t")
    if expected == 1 or (expected == EITHER and not tab):
        return text
    if not (first.strip() and second.strip()):
        raise UserError(f"{text[:40]!r}: this model was trained on pairs of texts; put a tab between the two.")
    return first, second
