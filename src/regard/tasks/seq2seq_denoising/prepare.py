"""The task `seq2seq_denoising`: running text, and a model that reads it under noise and writes the text, or what is hidden.

    objective.noise=span_corruption           T5
    objective.noise=permutation+infilling     BART

A vocabulary that is learned here has <mask> and 100 sentinels, whatever the noise, so that models of all kinds have the same size
and `task.init_from` may go from one to the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from regard.core.errors import UserError
from regard.data.batching.denoising import NoisedPassages
from regard.families import count_model, family_of
from regard.families.base import Sizes
from regard.families.flops import Part
from regard.objectives.base import Objective
from regard.runs.folder import Say
from regard.runs.load import window_of
from regard.runs.prepared import Measured, with_perplexity
from regard.runs.recipe import Recipe
from regard.tasks.corpus import RunningText, Text, read_running
from regard.tasks.generated_text import write
from regard.tasks.masked_lm.prepare import read_test
from regard.tasks.output_marks import greedy_as, pair_marks
from regard.tasks.seq2seq_denoising.noised import SCORED, noise_of, noised, room_of
from regard.text.tokenizer import Tokenizer
from regard.training.loop import Validation

SAMPLES = 3  # passages of the validation text that are shown


@dataclass(frozen=True, kw_only=True)
class Corrupted(RunningText):
    """Running text, under noise."""

    unit = "target tokens"

    def build(self, seed: int) -> nn.Module:
        return family_of(self.recipe.model).build(self.recipe.model, Sizes(vocabulary=self.vocabulary_size), seed)

    def source(self, *, packed: bool) -> NoisedPassages:
        return noised(self.recipe, self.tokenizer, self.train, self.recipe.train.seed, packed=packed)

    def valid_batches(self) -> NoisedPassages:
        """Return the validation text, whose noise is always the same."""
        return noised(self.recipe, self.tokenizer, self.valid, SCORED)

    def measure(self, model: nn.Module, objective: Objective, batches: NoisedPassages) -> Measured:
        return super().measure(model, objective, batches)._replace(found=batches)

    @torch.no_grad()
    def report(self, model: nn.Module, measured: Measured) -> Validation:
        """Report the loss, and the first few passages with what the model writes."""
        pairs = list(measured.found.pairs(measured.found.plan(0)[0][:SAMPLES]))
        greedy = greedy_as(self.recipe.decode, maximum_length=128)
        outputs = write(model, self.tokenizer, greedy, [pair.input.tolist() for pair in pairs])
        lines = [
            f"{self._spelt(pair.input.tolist())}\n  target     {self._spelt(pair.target.tolist())}\n"
            f"  model      {self._spelt(best[0].ids)}"
            for pair, best in zip(pairs, outputs)
        ]
        return Validation(with_perplexity(measured.means), lines)

    def _spelt(self, ids: list[int]) -> str:
        """Return a text with its marks, such as <extra_id_0>."""
        pieces = zip(ids, self.tokenizer.tokens(ids))
        return "".join(piece if i in self.tokenizer.specials else piece.replace("▁", " ") for i, piece in pieces).strip()

    def example(self) -> tuple[Part, int]:
        """A full passage and its target."""
        window, noise = window_of(self.recipe), noise_of(self.recipe, self.tokenizer, SCORED)
        marks = pair_marks(self.tokenizer, self.recipe.decode)
        written = noise.target_length(noise.passage_length(room_of(self.recipe, marks)), 0) + marks.around_target
        size = self.vocabulary_size
        return count_model(self.recipe.model, written, window, vocabulary=size, target_vocabulary=size), written


def prepare(recipe: Recipe, folder: Path | None, say: Say) -> Corrupted:
    """A vocabulary that is learned gets <mask> and the sentinels."""
    window_of(recipe)
    test = read_test(recipe) if recipe.data.test else None
    running = read_running(recipe, folder, say, ended=False, complete=lambda made: made.with_mask().with_sentinels())
    for split, text in (("train", running.train), ("valid", running.valid)):
        _must_be_enough(recipe, running.tokenizer, split, text)
    return Corrupted.of(recipe, running, test)


def _must_be_enough(recipe: Recipe, tokenizer: Tokenizer, split: str, text: Text) -> None:
    cure = "" if split == "train" or recipe.data.valid else " Raise data.valid_fraction, or give data.valid."
    if not len(noised(recipe, tokenizer, text, SCORED).passages):
        raise UserError(f"data.{split}: there is no passage of text to change; give more text.{cure}")
