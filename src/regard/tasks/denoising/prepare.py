"""Prepare the texts of a labelled data set for masked language modelling, and open a model that fills in their blanks.

Labels are ignored. Amos et al. 2024, Never train from scratch: before it is trained on labels, a model learns to fill in the
task's own inputs (they mask 50% of pixels, 15% of text, 10% of ListOps). Then `task.init_from` begins with it:

    regard train lra-listops task.name=denoising objective.mask_rate=0.1 --out runs/denoised
    regard train lra-listops task.init_from=runs/denoised

Where examples are pairs, each of the two texts is one to fill in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import torch
from torch import nn

from regard.core.errors import UserError
from regard.core.terminal import Emit
from regard.data.batching.masked import MaskedPassages, Masking, WholeTexts
from regard.data.batching.pairs import Ragged
from regard.data.lra import Sequences
from regard.data.sources.labelled import Example
from regard.families import count_model, family_of
from regard.families.base import Sizes
from regard.families.bert import BERT
from regard.families.encoder import Encoder
from regard.families.flops import Part
from regard.metrics.masked_lm import FillScores, score_filling
from regard.objectives import make_objective
from regard.objectives.base import Objective
from regard.runs.folder import Run, Say
from regard.runs.load import must_be_as_trained, ready
from regard.runs.prepared import Measured, PreparedText
from regard.runs.pretrained import has_vocabulary, start_of_run, start_to_train, vocabulary
from regard.runs.recipe import Recipe
from regard.tasks.classification.prepare import read_labelled_split, read_to_learn, words_of
from regard.tasks.classification.reader import Reader
from regard.tasks.masked_lm.masking import SCORED, words
from regard.tasks.masked_lm.predict import FillMask
from regard.text.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class Denoised(PreparedText):
    """Single texts, some symbols of which are masked."""

    reader: Reader
    train: Ragged
    valid: Ragged
    test: Sequence[Example]
    unit = "masked words"

    def build(self, seed: int) -> BERT | Encoder:
        return built(self.recipe, self.vocabulary_size, seed)

    def source(self, *, packed: bool) -> MaskedPassages:
        return masked(self.recipe, self.tokenizer, self.train, self.recipe.train.seed, packed)

    def valid_batches(self) -> MaskedPassages:
        """Return the validation texts, whose masks are always the same."""
        return masked(self.recipe, self.tokenizer, self.valid, SCORED)

    def measure(self, model: nn.Module, objective: Objective, batches: MaskedPassages) -> Measured:
        return Measured(score_filling(model, objective, batches.in_order()).metrics())

    def example(self) -> tuple[Part, int]:
        """A text of average length, with its masked words."""
        length = round(self.train.lengths.mean())
        scored = max(1, round(self.recipe.objective.mask_rate * length))
        return _count(self.recipe, self.vocabulary_size, length, scored), scored


def prepare(recipe: Recipe, folder: Path | None, say: Say) -> Denoised:
    if recipe.objective.next_sentence:
        raise UserError("objective.next_sentence=true is for running text, as in recipe bert; here every text stands alone.")
    begun, start = has_vocabulary(folder), start_to_train(recipe, folder)
    train, valid = read_to_learn(recipe)
    test = read_labelled_split(recipe, "test") if recipe.data.test else []
    tokenizer = vocabulary(recipe, folder, start, lambda: words_of(train))
    tokenizer = tokenizer if begun or start else tokenizer.with_mask()
    if tokenizer.roles.mask is None:
        raise UserError(
            f"task.init_from={recipe.task.init_from}: its vocabulary has no <mask>; start from a run that fills in, or none."
        )
    reader = alone(Reader.of(recipe, tokenizer))
    to_train, to_validate = encoded(reader, "train", train, say), encoded(reader, "valid", valid, say)
    say(f"text: {recipe.text.tokenizer}, {len(tokenizer):,} tokens in the vocabulary; labels are not looked at")
    return Denoised(recipe=recipe, tokenizer=tokenizer, start=start, reader=reader, train=to_train, valid=to_validate, test=test)


def parts(run: Run, recipe: Recipe, tokens: int) -> Part:
    (vocabulary,) = run.vocabulary_sizes()
    return _count(recipe, vocabulary, tokens)


def _count(recipe: Recipe, vocabulary: int, tokens: int, scored: int | None = None) -> Part:
    alone = replace(recipe.model, pairs="joined") if hasattr(recipe.model, "pairs") else recipe.model
    return count_model(alone, tokens, scored=scored, vocabulary=vocabulary)


def read_test(recipe: Recipe) -> Sequence[Example]:
    return read_labelled_split(recipe, "test")


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
        return score_filling(
            self.model, make_objective(recipe.objective), masked(recipe, self.reader.tokenizer, ids, SCORED).in_order()
        )


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
