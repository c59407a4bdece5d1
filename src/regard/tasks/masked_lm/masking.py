"""Masked text, model and objective, for training and for scoring of masked language models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np
from torch import nn

from regard.core.errors import UserError
from regard.data.batching.masked import MASKED, REPLACED, MaskedPassages, Masking, Passages
from regard.data.batching.token_cache import tokenise
from regard.data.sources.text import documents
from regard.families import build_model, marks_of
from regard.families.base import Heads
from regard.families.bert import BERT
from regard.families.electra import ELECTRA
from regard.metrics.masked_lm import FillScores, score_filling
from regard.objectives import make_objective
from regard.objectives.replaced_token import ReplacedTokenConfig
from regard.runs.load import window_of
from regard.runs.recipe import Recipe
from regard.tasks.corpus import PIECE, Text, text_pieces
from regard.text.tokenizer import Tokenizer

SCORED = 0  # the seed of masks that are always the same


@dataclass(frozen=True)
class MaskedTest:
    where: tuple[str, ...]
    column: str


def must_belong_together(recipe: Recipe) -> None:
    """A family and what is asked of it."""
    family, asked = recipe.model.family, recipe.objective.name
    if (family == "electra") != (asked == "replaced_token"):
        cure = "objective.name=replaced_token" if family == "electra" else "model.family=electra, or take recipe electra"
        raise UserError(f"model.family={family} cannot be trained with objective.name={asked}; set {cure}.")
    if (reads := getattr(recipe.model, "reads", "text")) != "text":
        raise UserError(f"model.reads={reads} reads no words to fill in; set model.reads=text.")
    if recipe.objective.next_sentence and recipe.model.segments < 2:
        raise UserError(
            f"objective.next_sentence=true tells two texts apart by segments, but model.segments={recipe.model.segments}; set "
            "model.segments=2, or objective.next_sentence=false."
        )


def built(recipe: Recipe, vocabulary: int, seed: int = 0) -> BERT | ELECTRA:
    if recipe.objective.name == "replaced_token":
        return ELECTRA(recipe.model, vocabulary, seed)
    return cast(BERT, build_model(recipe.model, seed, vocabulary=vocabulary, heads=asked(recipe)))


def asked(recipe: Recipe) -> Heads:
    return Heads(next_sentence=recipe.objective.next_sentence)


def masked(recipe: Recipe, tokenizer: Tokenizer, text: Text, seed: int, *, packed: bool = False) -> MaskedPassages:
    """ELECTRA's words are all hidden that are to be filled in; of BERT's some are replaced, and some stay."""
    objective, replaced = recipe.objective, isinstance(recipe.objective, ReplacedTokenConfig)
    if tokenizer.roles.mask is None:
        raise UserError(
            f"task.init_from={recipe.task.init_from}: its vocabulary has no piece that hides a word, such as [MASK]; start from "
            "a model that was trained to fill in words, or from none."
        )
    starts = text.starts if recipe.data.document_mask else np.zeros(1, np.int64)
    around = marks_of(recipe.model, tokenizer.roles)
    passages = Passages(text.ids, starts, window_of(recipe), around, seed, objective.next_sentence)
    masking = Masking(
        seed,
        tokenizer.roles.mask,
        words(tokenizer),
        objective.mask_rate,
        masked=1.0 if replaced else MASKED,
        replaced=0.0 if replaced else REPLACED,
        continues=tokenizer.continuing() if objective.whole_words else None,
    )
    return MaskedPassages(passages, recipe.train.tokens_per_batch, masking, packed, judged=replaced)


def words(tokenizer: Tokenizer) -> np.ndarray:
    """Ids of pieces of text: all that are there and are not special."""
    return np.array(sorted(set(tokenizer.raw.get_vocab(with_added_tokens=True).values()) - tokenizer.specials), np.int64)


def scored(model: nn.Module, recipe: Recipe, tokenizer: Tokenizer, test: MaskedTest) -> FillScores:
    """Score a model on a test text, whose masks are always the same."""
    tokens = tokenise(test.where, test.column, tokenizer, eos=None, say=lambda line: None)
    text = Text.of(tokens, 0, len(tokens.ids))
    return score_filling(model, make_objective(recipe.objective), masked(recipe, tokenizer, text, SCORED).in_order())


def masked_test_texts(test: MaskedTest, recipe: Recipe, tokenizer: Tokenizer) -> Iterator[tuple[str, None]]:
    """Yield a test text in pieces that a model can read, its special tokens counted."""
    room = min(PIECE, recipe.model.context or PIECE) - 2
    return ((piece, None) for piece in text_pieces(documents(test.where, test.column), tokenizer, room))
