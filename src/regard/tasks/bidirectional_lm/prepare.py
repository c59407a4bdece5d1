"""Prepare running text for two networks that predict it, one the next word, the other the previous one.

The trained model, an ELMo, says how well each way expects a text. It is then used by other tasks: `task.init_from=runs/elmo` in
classification and tagging, `task.name=embedding` for vectors.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from regard.core.errors import UserError
from regard.core.terminal import Emit
from regard.decode.config import DecodeConfig
from regard.families.elmo import ELMo
from regard.metrics.likelihood import Ids, log_probabilities
from regard.objectives.base import Objective
from regard.objectives.causal_lm import BidirectionalLMLoss
from regard.runs.folder import Run, Say
from regard.runs.load import window_of
from regard.runs.prepared import Measured, perplexity
from regard.runs.recipe import Recipe
from regard.tasks.corpus import Perplexity, TestText
from regard.tasks.language_model.prepare import Texts, prepare_as
from regard.tasks.predictor import TextPredictor, open_model
from regard.text.specials import EOS
from regard.text.tokenizer import Tokenizer
from regard.training.loop import Validation

PARTS = ("ahead", "back")


@dataclass(frozen=True, kw_only=True)
class ReadText(Texts):
    """Running text for two networks, one for each direction."""

    def build(self, seed: int) -> nn.Module:
        return ELMo(self.recipe.model, self.vocabulary_size, seed)

    def objective(self) -> Objective:
        return BidirectionalLMLoss()

    def report(self, model: nn.Module, measured: Measured) -> Validation:
        """Report the loss on the validation text, and the perplexity of each direction."""
        means = measured.means
        return Validation({"nll": means["nll"], **{f"{part}_perplexity": perplexity(means[part]) for part in PARTS}}, [])


def prepare(recipe: Recipe, folder: Path | None, say: Say) -> ReadText:
    if recipe.data.document_mask:
        raise UserError(
            "data.document_mask=true keeps documents that share a window apart, but a recurrent network carries one word to the "
            "next; set data.document_mask=false: an end token tells it where a document ends."
        )
    return prepare_as(ReadText, recipe, folder, say)


class Way:
    """One of the two as a language model, which reads its text in its own order (see `evaluate.likelihood.Reader`)."""

    def __init__(self, model: ELMo, layers: Sequence[nn.LSTM]) -> None:
        self.model, self.layers = model, layers
        self.head, self.training = model.head, model.training

    def hidden(self, ids_BL: Tensor) -> Tensor:
        return self.model.carried(self.layers, ids_BL)[-1]

    def train(self, mode: bool = True) -> None:
        self.training = mode
        self.model.train(mode)


class Expected(NamedTuple):
    """Scores on a test text, for each direction."""

    ahead: Perplexity
    back: Perplexity
    outputs: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        return [f"{way:<6} {line}" for way, found in (("ahead", self.ahead), ("back", self.back)) for line in found.lines()]

    def as_dict(self) -> dict[str, Any]:
        return {"ahead": self.ahead.as_dict(), "back": self.back.as_dict()}


@dataclass
class BidirectionalLM(TextPredictor):
    model: ELMo
    tokenizer: Tokenizer
    decode: DecodeConfig
    window: int  # tokens, of which those that are scored see at least half

    @classmethod
    def of(cls, run: Run, recipe: Recipe, device: torch.device) -> BidirectionalLM:
        model, tokenizer = open_model(run, recipe, device, lambda size: ELMo(recipe.model, size))
        return cls(model, tokenizer, recipe.decode, window_of(recipe))

    @property
    def end(self) -> int:
        """Return the token before and after every text."""
        return EOS if self.tokenizer.roles.eos is None else self.tokenizer.roles.eos

    def ahead(self, texts: Sequence[Ids], stride: int = 0) -> list[np.ndarray]:
        """log p of every token of each text, the end behind it included, given those before it."""
        return self._scored(self.model.ahead, texts, stride)

    def back(self, texts: Sequence[Ids], stride: int = 0) -> list[np.ndarray]:
        """Return log p of every token given those after it, in the order of the text."""
        turned = [np.append(np.asarray(ids)[-2::-1], ids[-1]) for ids in texts]
        return [np.append(scores[-2::-1], scores[-1]) for scores in self._scored(self.model.back, turned, stride)]

    def _scored(self, way: Sequence[nn.LSTM], texts: Sequence[Ids], stride: int) -> list[np.ndarray]:
        stride = stride or max(1, self.window // 2)
        return log_probabilities(Way(self.model, way), texts, start=self.end, window=self.window, stride=stride)

    def evaluate(self, test: TestText) -> Expected:
        ahead = Perplexity.of(test, self.tokenizer, self.end, self.ahead)
        return Expected(ahead, Perplexity.of(replace(test, train=()), self.tokenizer, self.end, self.back))

    def predict(self, texts: Sequence[str], first: int | None, as_json: bool, emit: Emit) -> None:
        """`ahead<TAB>back`, the perplexity of each text both ways; with --json what every token was expected with, in nats."""
        ids = [np.array([*self.tokenizer.encode(text), self.end]) for text in texts]
        for text, row, ahead, back in zip(texts, ids, self.ahead(ids), self.back(ids)):
            found = {"ahead": ahead, "back": back}
            if as_json:
                told = {"text": text, "tokens": [*self.tokenizer.tokens(row[:-1].tolist()), "<eos>"]}
                logs = {way: [float(score) for score in scores] for way, scores in found.items()}
                emit(json.dumps(told | logs, ensure_ascii=False) + "\n")
            else:
                emit("\t".join(f"{np.exp(-scores.mean(dtype=np.float64)):.2f}" for scores in found.values()) + "\n")
