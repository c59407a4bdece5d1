"""A model that fills in: of each blank in a text, typed as [MASK] or <mask>, the likeliest words and their probabilities.

And an ELECTRA that judges: how likely it is that each word of a text is not its own, but was put there. A run keeps both
networks, as it needs both to be trained further and to be scored. What it answers, and what is fine-tuned or exported, is the
discriminator alone; a public folder has no more than that. Who wants blanks filled in trains a BERT.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, cast, overload

import torch
from torch import Tensor

from regard.core.errors import UserError
from regard.core.terminal import Emit, printable
from regard.data.batching.pairs import Ragged
from regard.families import marks_of
from regard.families.bert import BERT
from regard.families.electra import ELECTRA, REPLACED
from regard.metrics.masked_lm import FillScores
from regard.runs.folder import Run
from regard.runs.load import must_be_as_trained
from regard.runs.pretrained import InitCheckpoint, start_of_run
from regard.runs.recipe import Recipe, Tables
from regard.runs.task import lazy
from regard.tasks.masked_lm.masking import MaskedTest, built, masked_test_texts, scored
from regard.tasks.predictor import TextPredictor, each_with, open_model
from regard.text.offsets import Placed
from regard.text.tokenizer import TYPED, Blanks, Tokenizer

TOP = 5  # words told of each blank


class Guess(NamedTuple):
    word: str
    probability: float


class Filled(NamedTuple):
    text: str  # with the likeliest word in every blank
    blanks: list[list[Guess]]  # of each, the likeliest words first

    def as_dict(self) -> dict[str, Any]:
        return {"filled": self.text, "blanks": [[guess._asdict() for guess in guesses] for guesses in self.blanks]}


@dataclass
class MaskedPredictor(TextPredictor):
    """A predictor for masked words, or for words that were replaced."""

    model: BERT
    tokenizer: Tokenizer
    recipe: Recipe
    both: ELECTRA | None = None  # of the run of an ELECTRA, with its generator

    def test_texts(self, test: MaskedTest) -> Iterator[tuple[str, str | None]]:
        return masked_test_texts(test, self.recipe, self.tokenizer)

    def hidden(self, rows: Sequence[Sequence[int]]) -> Iterator[tuple[list[int], Tensor, Tensor]]:
        """Yield batches of texts with their marks: which they are, ids_BL and x_BLD."""
        for batch, ids_BL, lengths_B in self.padded(Ragged(rows), self.recipe.decode.batch_tokens):
            yield batch, ids_BL, self.model.hidden(ids_BL, lengths_B)


class FillMask(MaskedPredictor):
    """Fills in blanks."""

    example = "the man went to the [MASK] to buy milk"

    subject = lazy("regard.tasks.masked_lm.inspect:of_filler")
    routes = lazy("regard.tasks.masked_lm.serve:filling_routes")

    @cached_property
    def blanks(self) -> Blanks:
        return Blanks(self.tokenizer)

    @classmethod
    def of_start(cls, start: InitCheckpoint, recipe: Recipe, device: torch.device) -> FillMask:
        """A run, or a public checkpoint as it is."""
        if not any(name.startswith("head.") for name in start.weights):
            raise UserError(f"{start.name} has no head for words; train one with task.init_from={start.name}.")
        return cls(*open_model(start, recipe, device, lambda size: cast(BERT, built(recipe, size))), recipe)

    @overload
    def __call__(self, text: str) -> str: ...
    @overload
    def __call__(self, text: list[str]) -> list[str]: ...
    def __call__(self, text: str | list[str]) -> str | list[str]:
        """One text, or each of many, with the likeliest word in every blank."""
        if isinstance(text, list):
            return [filled.text for filled in self.fill(text)]
        return self.fill([text])[0].text

    @torch.no_grad()
    def fill(self, texts: Sequence[str], top: int = TOP) -> list[Filled]:
        """The `top` likeliest words of every blank. What fills several blanks of a text is guessed one by one, not together."""
        found = [Filled(text, []) for text in texts]
        for batch, ids_BL, x_BLD in self.hidden(self._encode(texts)):
            row_M, place_M = (ids_BL == self.blanks.mask).nonzero(as_tuple=True)
            logits_MV = self.model.head(x_BLD[row_M, place_M])[:, : len(self.tokenizer)]
            likely_MK = logits_MV.float().softmax(-1).topk(min(top, logits_MV.shape[1]))
            for row, *guesses in zip(row_M.tolist(), likely_MK.indices.tolist(), likely_MK.values.tolist()):
                found[batch[row]].blanks.append([Guess(self._word(i), p) for i, p in zip(*guesses)])
        return [self._completed(filled) for filled in found]

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        around, room = marks_of(self.recipe.model, self.tokenizer.roles), self.recipe.model.context
        rows = [around.around([ids], len(ids) + 2)[0] for ids in self.blanks.encode(texts)]
        for text, ids in zip(texts, rows):
            if self.blanks.mask not in ids:
                raise UserError(f"{text[:40]!r} has no blank to fill in; write {self.blanks.name} in place of a word.")
            if room is not None and len(ids) > room:
                raise UserError(f"{text[:40]!r} is {len(ids):,} tokens long, but the model has {room:,} positions; give less.")
        return rows

    def _word(self, number: int) -> str:
        """Return a token as text; a token that is no text by itself, as a piece."""
        word = self.tokenizer.decode([number]).strip()
        return word if word and "\N{REPLACEMENT CHARACTER}" not in word else self.tokenizer.tokens([number])[0]

    def _completed(self, filled: Filled) -> Filled:
        words = iter([guesses[0].word for guesses in filled.blanks])
        return filled._replace(text=TYPED.sub(lambda _: next(words), filled.text))

    def predict(self, texts: Sequence[str], first: int | None, as_json: bool, emit: Emit) -> None:
        """`word probability, word probability, ...` for each text, blanks with a tab between; an empty line for an empty one."""
        for text, found in each_with(texts, self.fill):
            filled = found or Filled("", [])
            if as_json:
                emit(json.dumps({"text": text, **filled.as_dict()}, ensure_ascii=False) + "\n")
            else:
                told = (
                    ", ".join(f"{printable(word)} {probability:.4f}" for word, probability in guesses)
                    for guesses in filled.blanks
                )
                emit("\t".join(told) + "\n")

    def evaluate(self, test: MaskedTest) -> FillScores:
        return scored(self.model, self.recipe, self.tokenizer, test)


def open_run(run: Run, recipe: Recipe, device: torch.device) -> FillMask | ReplacedTokenDetector:
    """Open a trained run: an ELECTRA, or a model that fills in masked words."""
    must_be_as_trained(run, recipe)
    if recipe.objective.name == "replaced_token":
        return ReplacedTokenDetector.of(run, recipe, device)
    return adopt(start_of_run(run), recipe, device)


def adopt(start: InitCheckpoint, recipe: Recipe, device: torch.device) -> FillMask | ReplacedTokenDetector:
    """Open a checkpoint for what it has a head for: to detect replaced words, or to fill in masked ones."""
    detects = any(name.startswith("replaced.") for name in start.weights)
    return (ReplacedTokenDetector if detects else FillMask).of_start(start, recipe, device)


def adopted_settings(start: InitCheckpoint) -> Tables:
    """Return the objective that a public checkpoint was trained with."""
    return {"objective": {"next_sentence": True}} if any(name.startswith("next_sentence.") for name in start.weights) else {}


WORD = re.compile(r"\S+")


class Suspect(NamedTuple):
    word: str
    probability: float  # that it was replaced; of the pieces of a word, the highest


class ReplacedTokenDetector(MaskedPredictor):
    """Judges words."""

    example = "the man went to the house to buy milk"
    subject = lazy("regard.tasks.masked_lm.inspect:of_judge")
    routes = lazy("regard.tasks.masked_lm.serve:judging_routes")

    @classmethod
    def of(cls, run: Run, recipe: Recipe, device: torch.device) -> ReplacedTokenDetector:
        both, tokenizer = open_model(run, recipe, device, lambda size: ELECTRA(recipe.model, size))
        return cls(both.discriminator, tokenizer, recipe, both)

    @classmethod
    def of_start(cls, start: InitCheckpoint, recipe: Recipe, device: torch.device) -> ReplacedTokenDetector:
        """A public discriminator as it is."""
        return cls(*open_model(start, recipe, device, lambda size: BERT(recipe.model, size, heads=REPLACED)), recipe)

    def __call__(self, text: str | list[str]) -> list[Suspect] | list[list[Suspect]]:
        """Every word of one text, or of each of many, and how likely it is not the text's own."""
        return self.judge(text) if isinstance(text, list) else self.judge([text])[0]

    @torch.no_grad()
    def judge(self, texts: Sequence[str]) -> list[list[Suspect]]:
        placed = self._encode(texts)
        around, found = marks_of(self.recipe.model, self.tokenizer.roles), list[list[Suspect]]([[]] * len(texts))
        for batch, _, x_BLD in self.hidden([around.around([each.ids], len(each.ids) + 2)[0] for each in placed]):
            for n, probabilities in zip(batch, self.model.replaced(x_BLD).float().sigmoid().tolist()):
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
