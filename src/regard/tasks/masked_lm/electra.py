"""An ELECTRA that judges: how likely it is that each word of a text is not its own, but was put there.

A run keeps both networks, as it needs both to be trained further and to be scored. What it answers, and what is fine-tuned or
exported, is the discriminator alone; a public folder has no more than that. Who wants blanks filled in trains a BERT.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from regard.core.errors import UserError
from regard.core.terminal import Emit, printable
from regard.data.batching.pairs import Ragged, pad_rows
from regard.decode.request import in_batches
from regard.families import marks_of
from regard.families.bert import BERT
from regard.families.electra import ELECTRA, REPLACED
from regard.metrics.masked_lm import FillScores
from regard.runs.folder import Run
from regard.runs.load import load_model, ready, vocabulary_of
from regard.runs.pretrained import VOCABULARY, InitCheckpoint
from regard.runs.recipe import Recipe
from regard.tasks.masked_lm.masking import MaskedTest, masked_test_texts, scored
from regard.text.offsets import Placed
from regard.text.tokenizer import TYPED, Tokenizer

if TYPE_CHECKING:
    from regard.lens.subject import Subject

WORD = re.compile(r"\S+")


class Suspect(NamedTuple):
    word: str
    probability: float  # that it was replaced; of the pieces of a word, the highest


@dataclass
class ReplacedTokenDetector:
    model: BERT
    tokenizer: Tokenizer
    recipe: Recipe
    both: ELECTRA | None = None  # with the generator, of a run

    example = "the man went to the house to buy milk"

    @classmethod
    def of(cls, run: Run, recipe: Recipe, device: torch.device) -> ReplacedTokenDetector:
        tokenizer = Tokenizer.load(run.folder / VOCABULARY, foreign=True)
        both = load_model(run, lambda: ELECTRA(recipe.model, vocabulary_of(recipe, tokenizer)))
        both = ready(both, recipe.decode.weights, device)
        return cls(both.discriminator, tokenizer, recipe, both)

    @classmethod
    def of_start(cls, start: InitCheckpoint, recipe: Recipe, device: torch.device) -> ReplacedTokenDetector:
        """A public discriminator as it is."""
        model = start.open(lambda: BERT(recipe.model, start.vocabulary, heads=REPLACED))
        return cls(ready(model, recipe.decode.weights, device), start.tokenizer, recipe)

    @property
    def vocabularies(self) -> Mapping[str, Tokenizer]:
        return {VOCABULARY: self.tokenizer}

    def __call__(self, text: str | list[str]) -> list[Suspect] | list[list[Suspect]]:
        """Every word of one text, or of each of many, and how likely it is not the text's own."""
        return self.judge(text) if isinstance(text, list) else self.judge([text])[0]

    @torch.no_grad()
    def judge(self, texts: Sequence[str]) -> list[list[Suspect]]:
        placed = self._encode(texts)
        around, found = marks_of(self.recipe.model, self.tokenizer.roles), list[list[Suspect]]([[]] * len(texts))
        rows = Ragged([around.around([each.ids], len(each.ids) + 2)[0] for each in placed])
        device = next(self.model.parameters()).device
        for batch in in_batches(rows.lengths.tolist(), self.recipe.decode.batch_tokens):
            ids_BL, lengths_B = (part.to(device) for part in pad_rows(*rows.take(np.array(batch))))
            replaced_BL = self.model.replaced(self.model.hidden(ids_BL, lengths_B)).float().sigmoid().tolist()
            for n, probabilities in zip(batch, replaced_BL):
                found[n] = _suspects(texts[n], placed[n], probabilities[1:])  # the first is a mark's
        return found

    def _encode(self, texts: Sequence[str]) -> list[Placed]:
        placed, room = self.tokenizer.encode_placed(texts), self.recipe.model.context
        for text, each in zip(texts, placed):
            if TYPED.search(text):
                raise UserError(f"{text[:40]!r} has a blank, but this model judges words and fills in none; give a whole text.")
            if room is not None and len(each.ids) + 2 > room:
                long = f"{text[:40]!r} is {len(each.ids):,} tokens long"
                raise UserError(f"{long}, but the model has {room - 2:,} positions for them; give less.")
        return placed

    def predict(self, texts: Sequence[str], first: int | None, as_json: bool, emit: Emit) -> None:
        """`word probability` for every word of a text, with tabs between; an empty line for an empty one."""
        for text, suspects in zip(texts, self.judge(texts)):
            if as_json:
                told = [suspect._asdict() for suspect in suspects]
                emit(json.dumps({"text": text, "words": told}, ensure_ascii=False) + "\n")
            else:
                emit("\t".join(f"{printable(word)} {probability:.4f}" for word, probability in suspects) + "\n")

    def subject(self, text: str, target: str | None = None, hypothesis: int | None = None) -> Subject:
        from regard.tasks.masked_lm.inspect import of_judge

        return of_judge(self, text, target)

    def test_texts(self, test: MaskedTest) -> Iterator[tuple[str, str | None]]:
        return masked_test_texts(test, self.recipe, self.tokenizer)

    def evaluate(self, test: MaskedTest) -> FillScores:
        if self.both is None:
            raise UserError("a discriminator alone cannot be scored: what it judges a generator puts in; score its run.")
        return scored(self.both, self.recipe, self.tokenizer, test)


def _suspects(text: str, placed: Placed, probabilities: Sequence[float]) -> list[Suspect]:
    found = []
    for word in WORD.finditer(text):
        if (pieces := placed.pieces_of(*word.span())) is not None:
            found.append(Suspect(word[0], max(probabilities[pieces[0] : pieces[1] + 1])))
    return found
