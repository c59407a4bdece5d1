"""The task `masked_lm`: running text with words taken out, and an encoder that learns to fill them in, or to find false ones.

objective.name=masked_lm      BERT: what stood here? With objective.next_sentence=true also: does a text follow the one before?
objective.name=replaced_token    ELECTRA: a small network fills in, and a larger one finds what it got wrong
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

from regard.core.errors import UserError
from regard.data.batching.masked import MaskedBatch, MaskedPassages
from regard.data.loader import Source
from regard.families import count_model
from regard.families.bert import BERT
from regard.families.electra import ELECTRA
from regard.families.flops import Part
from regard.metrics.masked_lm import score_filling
from regard.objectives.base import Objective
from regard.runs.folder import Run, Say
from regard.runs.load import window_of
from regard.runs.prepared import Measured
from regard.runs.recipe import Recipe
from regard.tasks.corpus import RunningText, Text, must_be_there, read_running
from regard.tasks.masked_lm.masking import (
    SCORED,
    MaskedTest,
    asked,
    built,
    masked,
    must_belong_together,
    words,
)
from regard.text.tokenizer import Tokenizer
from regard.training.loop import Validation

LOOKED_AT = 1_000_000  # tokens, to see that a text is more than unknown pieces
SHOWN = 2  # passages of the validation text


@dataclass(frozen=True, kw_only=True)
class Masked(RunningText):
    """Running text, some words of which are masked."""

    unit = "masked words"

    def build(self, seed: int) -> BERT | ELECTRA:
        return built(self.recipe, self.vocabulary_size, seed)

    def source(self, *, packed: bool) -> Source:
        return masked(self.recipe, self.tokenizer, self.train, self.recipe.train.seed, packed=packed)

    def valid_batches(self) -> MaskedPassages:
        """Return the validation text, whose masks are always the same."""
        return masked(self.recipe, self.tokenizer, self.valid, SCORED)

    def measure(self, model: nn.Module, objective: Objective, batches: MaskedPassages) -> Measured:
        return Measured(score_filling(model, objective, batches.in_order()).metrics(), batches)

    def report(self, model: nn.Module, measured: Measured) -> Validation:
        """Report the scores, and of a BERT a passage or two with the words that it fills in."""
        replaced = self.recipe.objective.name == "replaced_token"
        return Validation(measured.means, [] if replaced else self._samples(model, next(measured.found.in_order())))

    @torch.no_grad()
    def _samples(self, model: nn.Module, batch: MaskedBatch) -> list[str]:
        batch = batch.to(next(model.parameters()).device)
        said_M = model(batch.ids_BL, batch.words, batch.segments_BL).argmax(-1).flatten()[batch.masked_M]
        own_BL = batch.ids_BL.flatten().scatter(0, batch.masked_M, batch.targets_M).view_as(batch.ids_BL)
        rows_M, tokens = batch.masked_M // batch.ids_BL.shape[1], self.tokenizer.tokens
        return [
            f"{self.tokenizer.decode(own_BL[row].tolist())}\n"
            f"  masked     {' '.join(tokens(batch.targets_M[rows_M == row].tolist()))}\n"
            f"  model      {' '.join(tokens(said_M[rows_M == row].tolist()))}"
            for row in range(min(SHOWN, len(own_BL)))
        ]

    def example(self) -> tuple[Part, int]:
        """A full passage, with its masked words."""
        window = window_of(self.recipe)
        scored = max(1, round(self.recipe.objective.mask_rate * window))
        return self.count(window, asked(self.recipe), scored), scored


def prepare(recipe: Recipe, folder: Path | None, say: Say) -> Masked:
    """A vocabulary that is learned gets a piece more, <mask>."""
    must_belong_together(recipe)
    window_of(recipe)
    test = read_test(recipe) if recipe.data.test else None
    running = read_running(recipe, folder, say, ended=False, complete=Tokenizer.with_mask)
    for split, text in (("train", running.train), ("valid", running.valid)):
        _must_be_enough(recipe, running.tokenizer, split, text)
    return Masked.of(recipe, running, test)


def read_test(recipe: Recipe) -> MaskedTest:
    must_be_there(recipe.data.test)
    return MaskedTest(recipe.data.test, recipe.data.column)


def _must_be_enough(recipe: Recipe, tokenizer: Tokenizer, split: str, text: Text) -> None:
    """Passages can be cut, and some of what is in them is words."""
    cure = "" if split == "train" or recipe.data.valid else " Raise data.valid_fraction, or give data.valid."
    try:
        passages = masked(recipe, tokenizer, text, SCORED).passages
    except UserError as error:
        raise UserError(f"data.{split}: {error}{cure}") from None
    known = np.isin(text.ids[:LOOKED_AT], words(tokenizer)).sum()
    if not len(passages) or known * 2 < min(len(text.ids), LOOKED_AT):
        raise UserError(
            f"data.{split}: of {len(text.ids):,} tokens only {known:,} are pieces that the vocabulary knows, too few to fill in; "
            f"give other text, or a vocabulary that can spell it.{cure}"
        )


def parts(run: Run, recipe: Recipe, tokens: int) -> Part:
    (vocabulary,) = run.vocabulary_sizes()
    return count_model(recipe.model, tokens, vocabulary=vocabulary, heads=asked(recipe))
