"""A bot that replies with a reply of its training data: the one whose vector is nearest to the context's, by cosine.

What it keeps is `replies.jsonl` of its run, in the format of any dialogue: whoever edits that file changes what it can say. The
vectors of it all are `index.safetensors`, made when the run is first opened, and again when weights or replies have changed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, cast

import numpy as np
import torch

from regard.core.errors import UserError
from regard.core.terminal import Emit
from regard.data.config import RetrievalConfig
from regard.data.pair import Pair
from regard.data.sources.dialogues import Exchange, as_typed
from regard.decode.config import DecodeConfig
from regard.families import family_of
from regard.families.two_tower import Bag, Side, TwoTower, towers
from regard.metrics.dialogue import DialogueScores, candidates, score_replies
from regard.runs.folder import Run, Say
from regard.runs.load import load_model, must_be_as_trained, ready, vocabulary_of
from regard.runs.pretrained import VOCABULARY, InitCheckpoint
from regard.runs.protocols import Vocabulary
from regard.runs.recipe import Recipe
from regard.tasks.results import EvaluationResult
from regard.tasks.retrieval.reader import TurnReader, vectors
from regard.tasks.retrieval.reply_index import REPLIES, ReplyIndex, indexed
from regard.tasks.word_init import known_rows
from regard.text.tokenizer import Tokenizer


class Found(NamedTuple):
    reply: str
    cosine: float


@dataclass(eq=False)
class Retriever:
    model: TwoTower
    reader: TurnReader
    kept: ReplyIndex
    data: RetrievalConfig
    decode: DecodeConfig
    run: Run | None = None  # where vectors are kept

    @classmethod
    def of(cls, run: Run, recipe: Recipe, device: torch.device) -> Retriever:
        must_be_as_trained(run, recipe)
        tokenizer = Tokenizer.load(run.folder / VOCABULARY, foreign=True)
        model = load_model(run, lambda: towers(recipe.model, vocabulary_of(recipe, tokenizer), recipe.objective.pooling))
        model, kept = ready(model, recipe.decode.weights, device), ReplyIndex.load(run.folder / REPLIES)
        return cls(model, TurnReader.of(recipe, tokenizer), kept, recipe.data, recipe.decode, run)

    @classmethod
    def of_start(cls, start: InitCheckpoint, recipe: Recipe, kept: ReplyIndex, device: torch.device) -> Retriever:
        """A body that was trained for something else, as it is."""
        model = towers(recipe.model, start.vocabulary, recipe.objective.pooling)
        begin(model, start)
        model = ready(model, recipe.decode.weights, device)
        return cls(model, TurnReader.of(recipe, start.tokenizer), kept, recipe.data, recipe.decode)

    @property
    def vocabularies(self) -> Mapping[str, Vocabulary]:
        return {VOCABULARY: self.reader.tokenizer, REPLIES: self.kept}

    @cached_property
    def entries(self) -> list[Exchange]:
        """Return what a context is compared with: every reply once, or every context of the training data."""
        if self.data.compare == "contexts":
            return [exchange for exchange in self.kept.exchanges if exchange.context]
        return list({exchange.reply: exchange for exchange in reversed(self.kept.exchanges)}.values())[::-1]

    @cached_property
    def index(self) -> np.ndarray:
        """y_ND, of length 1."""
        if self.run is None:
            return self._index()
        made_of = (self.kept.digest(), self.reader.turns, self.reader.room, self.data.compare, self.decode.weights)
        return indexed(self.run, str(made_of), self._index)

    def _index(self) -> np.ndarray:
        if self.data.compare == "contexts":
            return self.vectors("contexts", [exchange.context for exchange in self.entries])
        return self.vectors("replies", [(exchange.reply,) for exchange in self.entries])

    def vectors(self, side: Side, texts: Sequence[Sequence[str]]) -> np.ndarray:
        return vectors(self.model, self.reader, side, texts, self.decode.batch_tokens)

    def __call__(self, said: str | Sequence[str]) -> str:
        """The nearest reply to one turn, or to several of which the last is to be replied to."""
        context = as_typed(said) if isinstance(said, str) else tuple(said)
        if not context:
            raise UserError("nothing was said; give at least one turn to reply to.")
        return self.nearest([context], 1)[0][0].reply

    def nearest(self, contexts: Sequence[Sequence[str]], count: int) -> list[list[Found]]:
        """Return the `count` nearest replies to each context, all different, the nearest first."""
        found = []
        for x_D in self.vectors("contexts", contexts):
            cosines_N = self.index @ x_D
            best: dict[str, float] = {}
            for n in np.argsort(-cosines_N, kind="stable"):
                best.setdefault(self.entries[n].reply, float(cosines_N[n]))
                if len(best) == count:
                    break
            found.append([Found(*pair) for pair in best.items()])
        return found

    @property
    def tokenizer(self) -> Tokenizer:
        return self.reader.tokenizer

    def replies(self, turns: Sequence[str], say: Say) -> list[str]:
        if len(self.tokenizer.encode(turns[-1])) > (most := self.reader.room - 2):
            say(f"(of that, only the first {most:,} tokens are read)")
        found = self.nearest([turns], self.data.nearest)[0]
        return [found[0].reply] if self.data.nearest == 1 else [f"{one.cosine:.4f}\t{one.reply}" for one in found]

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        return self.vectors("contexts", [as_typed(text) for text in texts])

    def predict(self, texts: Sequence[str], first: int | None, as_json: bool, emit: Emit) -> None:
        """The nearest reply to each text, whose turns have __eou__ between them; with data.nearest=5, five with their cosines."""
        said = [as_typed(text) for text in texts]
        answers = iter(self.nearest([context for context in said if context], self.data.nearest))
        for text, context in zip(texts, said):
            found = next(answers) if context else []
            if as_json:
                emit(json.dumps({"source": text, "outputs": [one._asdict() for one in found]}, ensure_ascii=False) + "\n")
            elif self.data.nearest == 1 or not found:
                emit(f"{found[0].reply if found else ''}\n")
            else:
                emit("".join(f"{one.cosine:.4f}\t{one.reply}\n" for one in found))

    def evaluate(self, test: Sequence[Pair]) -> EvaluationResult[DialogueScores]:
        contexts, replies = [as_typed(pair.source) for pair in test], [pair.target for pair in test]
        outputs = [found[0].reply for found in self.nearest(contexts, 1)]
        return EvaluationResult(score_replies(outputs, replies, self.cosines(contexts, replies)), outputs)

    def cosines(self, contexts: Sequence[Sequence[str]], replies: Sequence[str]) -> np.ndarray:
        """Return the cosines of each context and its candidates, the true reply first."""
        x_ND, y_ND = self.vectors("contexts", contexts), self.vectors("replies", [(reply,) for reply in replies])
        return np.einsum("nd,ncd->nc", x_ND, y_ND[candidates(replies)])


@torch.no_grad()
def begin(model: TwoTower, start: InitCheckpoint) -> None:
    """Load the body of a checkpoint; from word vectors, the vectors of known words, and zeros for the others."""
    if not family_of(model).has("word_vectors"):
        start.fill(model.body)
        return
    known = known_rows(start.tokenizer, start.name)
    cast(Bag, model.body).words.weight.zero_()[known.rows_R] = known.vectors_RD
