"""Noised text, for training and for scoring."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from torch import nn

from regard.core.errors import UserError
from regard.data.batching.denoising import NoisedPassages
from regard.data.batching.labelled import SpecialTokens
from regard.data.batching.masked import Passages
from regard.data.batching.noise import Noise, NoiseIds, parse_noise
from regard.objectives.base import Objective
from regard.runs.load import window_of
from regard.runs.prepared import losses_of, mean_losses, perplexity
from regard.runs.recipe import Recipe
from regard.tasks.corpus import Text
from regard.tasks.output_marks import pair_marks
from regard.text.specials import EOS, SOS, PairMarks
from regard.text.tokenizer import Tokenizer

SCORED = 0  # the seed of noise that is always the same
AROUND = 2  # marks of a passage, which noise does not see


@dataclass(frozen=True, kw_only=True)
class DenoisingScores:
    """How well targets are predicted, each token from those before it."""

    nll: float
    perplexity: float
    noise: str
    outputs = ()

    def lines(self) -> list[str]:
        return [f"perplexity  {self.perplexity:8.2f}  a token of the targets of {self.noise}", f"nll         {self.nll:8.4f}"]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def room_of(recipe: Recipe, marks: PairMarks) -> int:
    """Return the tokens of the window with one mark of those around a passage."""
    return window_of(recipe) + 1 - max(marks.around_source, marks.around_target)


def noise_of(recipe: Recipe, tokenizer: Tokenizer, seed: int) -> Noise:
    """Return the noise of a recipe; refused if the vocabulary lacks tokens for it."""
    objective = recipe.objective
    ids = NoiseIds.of(tokenizer)
    noise = Noise(parse_noise(objective.noise), objective.noise_rate, objective.mean_span, ids, seed, objective.mask_random)
    noise.check(room_of(recipe, pair_marks(tokenizer, recipe.decode)))
    if "permutation" in noise.kinds and not ids.ends_sentence.any():
        raise UserError(
            "objective.noise=permutation shuffles sentences, but no piece of this vocabulary ends one (with . ! or ?); choose "
            "another noise, or another text.tokenizer."
        )
    return noise


def noised(recipe: Recipe, tokenizer: Tokenizer, text: Text, seed: int, *, packed: bool = False) -> NoisedPassages:
    noise, marks = noise_of(recipe, tokenizer, seed), pair_marks(tokenizer, recipe.decode)
    starts = text.starts if recipe.data.document_mask else np.zeros(1, np.int64)
    window = noise.passage_length(room_of(recipe, marks)) + AROUND
    passages = Passages(text.ids, starts, window, SpecialTokens(SOS, EOS, EOS), seed)
    return NoisedPassages(passages, recipe.train.tokens_per_batch, noise, packed, marks)


def score(model: nn.Module, objective: Objective, batches: Iterable[Any], noise: str) -> DenoisingScores:
    nll = mean_losses(losses_of(model, objective, batches))["nll"]
    return DenoisingScores(nll=nll, perplexity=perplexity(nll), noise=noise)
