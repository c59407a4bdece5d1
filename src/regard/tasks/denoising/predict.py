"""A model that fills in blanks of the texts of a labelled data set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import torch

from regard.core.terminal import Emit
from regard.data.batching.masked import MaskedPassages, Masking, WholeTexts
from regard.data.batching.pairs import Ragged
from regard.data.lra import Sequences
from regard.data.sources.labelled import Example
from regard.families import family_of
from regard.families.base import Sizes
from regard.families.bert import BERT
from regard.families.encoder import Encoder
from regard.metrics.masked_lm import FillScores, score_filling
from regard.objectives.masked_lm import MaskedLMLoss
from regard.runs.folder import Run, Say
from regard.runs.load import must_be_as_trained, ready
from regard.runs.pretrained import start_of_run
from regard.runs.recipe import Recipe
from regard.tasks.classification.reader import Reader
from regard.tasks.masked_lm.masking import SCORED, words
from regard.tasks.masked_lm.predict import FillMask
from regard.text.tokenizer import Tokenizer


@dataclass
class Denoiser:
    """A model that fills in blanks, typed as <mask>, and can be scored on texts."""

    model: BERT | Encoder
    filler: FillMask
    reader: Reader

    @classmethod
    def of(cls, run: Run, recipe: Recipe, device: torch.device) -> Denoiser:
        must_be_as_trained(run, recipe)
        start = start_of_run(run)
        model = start.open(lambda: built(recipe, start.vocabulary))
        model = ready(model, recipe.decode.weights, device)
        filler = FillMask(model, start.tokenizer, recipe)  # type: ignore[arg-type]  # which needs no more than both have
        return cls(model, filler, alone(Reader.of(recipe, start.tokenizer)))

    @property
    def tokenizer(self) -> Tokenizer:
        return self.filler.tokenizer

    def predict(self, texts: Sequence[str], first: int | None, as_json: bool, emit: Emit) -> None:
        self.filler.predict(texts, first, as_json, emit)

    def evaluate(self, test: Sequence[Example]) -> FillScores:
        recipe = self.filler.recipe
        ids = encoded(self.reader, "test", test, lambda line: None)
        objective = MaskedLMLoss(recipe.objective)
        return score_filling(self.model, objective, masked(recipe, self.reader.tokenizer, ids, SCORED).in_order())


def built(recipe: Recipe, size: int, seed: int = 0) -> BERT | Encoder:
    """Build the model with a head for words, and no other."""
    return cast(BERT | Encoder, family_of(recipe.model).build(recipe.model, Sizes(vocabulary=size), seed))


def masked(recipe: Recipe, tokenizer: Tokenizer, ids: Ragged, seed: int, packed: bool = False) -> MaskedPassages:
    assert tokenizer.roles.mask is not None
    continues = tokenizer.continuing() if recipe.objective.whole_words else None
    masking = Masking(seed, tokenizer.roles.mask, words(tokenizer), recipe.objective.mask_rate, continues=continues)
    return MaskedPassages(WholeTexts(ids, seed), recipe.train.tokens_per_batch, masking, packed)


def alone(reader: Reader) -> Reader:
    """Return a reader of single texts, also where the data set has pairs."""
    return replace(reader, marks=reader.marks._replace(apart=False))


def encoded(reader: Reader, split: str, examples: Sequence[Example], say: Say) -> Ragged:
    if not isinstance(examples, Sequences):
        examples = [Example(text, None, e.label, e.place) for e in examples for text in e.texts]
    ids, _, cut = reader.encode_examples(examples, split)
    told = f", {cut:,} of them cut to data.maximum_tokens={reader.cut}" if cut else ""
    say(f"{split}: {len(ids):,} texts of {round(ids.lengths.mean()):,} tokens{told}")
    return ids
