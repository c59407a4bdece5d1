"""The task `retrieval`: dialogues, and an encoder that brings contexts and their replies near each other.

What it says then are replies of its training dialogues, kept with the run. A body that was trained for something else can be
asked without any training.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from regard.core.errors import UserError
from regard.data.batching.pairs import EncodedExchanges, ExchangeBatches
from regard.data.sources import Pair
from regard.data.sources.dialogues import Exchange
from regard.families import family_of
from regard.families.flops import Part
from regard.families.two_tower import TwoTower, count, towers
from regard.metrics.dialogue import recalls
from regard.runs.folder import Say
from regard.runs.prepared import Measured, PreparedText
from regard.runs.pretrained import VOCABULARY, InitCheckpoint, pooled_settings, start_to_train, vocabulary
from regard.runs.protocols import Vocabulary
from regard.runs.recipe import Recipe, Tables
from regard.tasks.dialogue.prepare import exchanges_of, read_dialogue_split, read_splits
from regard.tasks.retrieval.predict import REPLIES, ReplyIndex, Retriever, TurnReader, begin
from regard.training.loop import Validation

SAMPLES = 4


@dataclass(frozen=True, kw_only=True)
class Exchanges(PreparedText):
    """Contexts and their replies."""

    reader: TurnReader
    kept: ReplyIndex
    train: EncodedExchanges
    valid: EncodedExchanges
    valid_exchanges: list[Exchange]
    test: list[Pair]
    unit = examples = "replies"
    metric = "accuracy"

    @property
    def vocabularies(self) -> Mapping[str, Vocabulary]:
        return {VOCABULARY: self.tokenizer, REPLIES: self.kept}

    def build(self, seed: int) -> TwoTower:
        return towers(self.recipe.model, self.vocabulary_size, self.recipe.objective.pooling, seed)

    def begin(self, model: nn.Module) -> None:
        if self.start is not None:
            begin(cast(TwoTower, model), self.start)

    def source(self, *, packed: bool) -> ExchangeBatches:
        """Padded always: what is compared comes a row each."""
        return ExchangeBatches(self.train, self.recipe.train.tokens_per_batch, self.recipe.train.seed)

    def valid_batches(self) -> list[Any]:
        return ExchangeBatches(self.valid, self.recipe.train.tokens_per_batch, seed=0).in_order()

    def report(self, model: nn.Module, measured: Measured) -> Validation:
        """Report how often the true reply is the best of ten, and the nearest reply to the first few contexts."""
        contexts, replies = zip(*self.valid_exchanges)
        index = ReplyIndex.of(self.valid_exchanges)  # few enough to be encoded at every validation
        bot = Retriever(cast(TwoTower, model), self.reader, index, self.recipe.data, self.recipe.decode)
        lines = [
            f"{context[-1]}\n  reference  {reply}\n  model      {near[0].reply}"
            for context, reply, near in zip(contexts, replies, bot.nearest(contexts[:SAMPLES], 1))
        ]
        accuracy = recalls(bot.cosines(contexts, replies)).get(1, 1.0)
        return Validation({"nll": measured.means["nll"], "accuracy": accuracy}, lines)

    def example(self) -> tuple[Part, int]:
        context, reply = (round(side.lengths.mean()) for side in (self.train.contexts, self.train.replies))
        return count(self.recipe.model, self.vocabulary_size, context, reply), 1


def prepare(recipe: Recipe, folder: Path | None, say: Say) -> Exchanges:
    """Read and check the data, then take the vocabulary of the run, of the start, or of the training dialogues."""
    if recipe.text.vectors and family_of(recipe.model).has("word_vectors"):
        raise UserError(
            f"text.vectors={recipe.text.vectors} is for models that read; a table of words begins with task.init_from=RUN."
        )
    start = start_to_train(recipe, folder)
    dialogues, splits = read_splits(recipe, say)
    tokenizer = vocabulary(recipe, folder, start, lambda: [turn for dialogue in dialogues for turn in dialogue.turns])
    say(f"text: {recipe.text.tokenizer}, {len(tokenizer):,} tokens in the vocabulary")
    reader = TurnReader.of(recipe, tokenizer)
    test = [exchange.pair for exchange in splits.get("test", [])]
    train, valid = (reader.exchanges(splits[split]) for split in ("train", "valid"))
    return Exchanges(
        recipe=recipe,
        tokenizer=tokenizer,
        start=start,
        reader=reader,
        kept=ReplyIndex.of(splits["train"]),
        train=train,
        valid=valid,
        valid_exchanges=splits["valid"],
        test=test,
    )


def adopt(start: InitCheckpoint, recipe: Recipe, device: torch.device) -> Retriever:
    """A checkpoint as it is; what it may say are the replies of data.train."""
    kept = ReplyIndex.of(exchanges_of(recipe, read_dialogue_split(recipe, "train")))
    return Retriever.of_start(start, recipe, kept, device)


def adopted_settings(start: InitCheckpoint) -> Tables:
    """Return how a public checkpoint pools the vectors of its tokens."""
    return {"objective": {"pooling": pooled_settings(start)["objective"]["pooling"]}}
