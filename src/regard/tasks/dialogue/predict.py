"""A trained model that replies: what was said in, turn by turn, and what it says to that out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from regard.core.errors import UserError
from regard.core.terminal import Emit
from regard.data.batching.pairs import EncodedPairs, Ragged
from regard.data.sources import Pair
from regard.data.sources.dialogues import BETWEEN, as_typed, recent
from regard.decode.config import DecodeConfig
from regard.decode.rows import SearchRow
from regard.metrics.dialogue import DialogueScores, candidates, log_likelihoods, perplexity, score_replies
from regard.model.state.protocol import EncodedInput
from regard.runs.folder import Run, Say
from regard.runs.protocols import Predictor
from regard.runs.recipe import Recipe
from regard.runs.task import lazy
from regard.tasks.generated_text import must_be_text
from regard.tasks.predictor import EvaluationResult
from regard.tasks.translation.predict import Tokenizers, Translator
from regard.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Fit:
    """Contexts as a model sees them: its last turns, as many as it was trained with and as have room."""

    tokenizer: Tokenizer
    turns: int
    room: int

    @classmethod
    def of(cls, recipe: Recipe, tokenizer: Tokenizer) -> Fit:
        return cls(tokenizer, recipe.data.turns, recipe.data.maximum_tokens)

    def __call__(self, pairs: Sequence[Pair]) -> list[Pair]:
        contexts = self.contexts([as_typed(pair.source) for pair in pairs])
        return [Pair(BETWEEN.join(context), pair.target) for context, pair in zip(contexts, pairs)]

    def contexts(self, contexts: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
        texts = sorted({turn for context in contexts for turn in context})
        length = {text: len(ids) for text, ids in zip(texts, self.tokenizer.encode_batch(texts))}
        return [recent(context, self.turns, self.room, length.__getitem__) for context in contexts]


@dataclass
class Responder:
    translator: Translator  # of what was said into what to say
    fit: Fit
    model: Any = field(init=False)

    def __post_init__(self) -> None:
        self.model = self.translator.model

    @property
    def tokenizers(self) -> Tokenizers:
        return self.translator.tokenizers

    @classmethod
    def of(cls, run: Run, recipe: Recipe, device: torch.device) -> Responder:
        translator = Translator.of(run, recipe, device)
        return cls(translator, Fit.of(recipe, translator.tokenizers.source))

    def __call__(self, said: str | Sequence[str]) -> str:
        """The reply to one turn, or to several of which the last is to be replied to."""
        context = as_typed(said) if isinstance(said, str) else tuple(said)
        if not context:
            raise UserError("nothing was said; give at least one turn to reply to.")
        return self.translator(self._fitted([context])[0])

    @property
    def tokenizer(self) -> Tokenizer:
        return self.tokenizers.source

    routes = lazy("regard.tasks.dialogue.serve:routes")

    def replies(self, turns: Sequence[str], say: Say) -> list[str]:
        return [self(turns)]

    @property
    def target_tokenizer(self) -> Tokenizer:
        return self.tokenizers.target

    @property
    def decode(self) -> DecodeConfig:
        return self.translator.decode

    def row(self, given: Any) -> SearchRow | None:
        """Return a conversation, whose turns have __eou__ between them, as a row of a search; None: nothing was said."""
        return self.translator.row(self._fitted([as_typed(must_be_text(given))])[0])

    def encode_rows(self, rows: Sequence[SearchRow]) -> EncodedInput:
        return self.translator.encode_rows(rows)

    def predict(self, texts: Sequence[str], first: int | None, as_json: bool, emit: Emit) -> None:
        """A line for each text, whose turns have __eou__ between them."""
        self.translator.predict(self._fitted([as_typed(text) for text in texts]), first, as_json, emit)

    def evaluate(self, test: Sequence[Pair]) -> EvaluationResult[DialogueScores]:
        """Candidates are ranked by their log-probability a token: a plain sum would prefer whatever is short."""
        sources, replies = self._fitted([as_typed(pair.source) for pair in test]), [pair.target for pair in test]
        outputs = self.translator(sources)
        rows_NC = candidates(replies)
        encode, budget = self.fit.tokenizer.encode_batch, self.translator.decode.batch_tokens
        read, written = encode(sources), encode(replies)
        asked = EncodedPairs(
            Ragged([read[n] for n in range(len(test)) for _ in rows_NC[n]]), Ragged([written[n] for n in rows_NC.flat])
        )
        nats_NC = log_likelihoods(self.model, asked, budget).reshape(rows_NC.shape)
        tokens_NC = np.array([len(ids) + 1 for ids in written])[rows_NC]
        likely = perplexity(nats_NC[:, 0], int(tokens_NC[:, 0].sum()))
        return EvaluationResult(score_replies(outputs, replies, nats_NC / tokens_NC, likely), outputs)

    def read(self, turns: Sequence[str]) -> str:
        """Return the text that the model reads of a conversation: its last turns, as many as have room."""
        return self._fitted([tuple(turns)])[0]

    def _fitted(self, contexts: Sequence[Sequence[str]]) -> list[str]:
        return [BETWEEN.join(context) for context in self.fit.contexts(contexts)]


def as_writer(answers: Predictor) -> Predictor:
    """Return the translator inside a model that replies; any other predictor as it is."""
    inner: Predictor = getattr(answers, "translator", answers)
    return inner
