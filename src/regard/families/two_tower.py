"""Two towers: contexts and replies as vectors of one space, in which a context lies near what one would reply to it.

Henderson et al. 2017, "Efficient natural language response suggestion for Smart Reply", with the body shared as in Reimers &
Gurevych 2019: one body reads both, the mean of its words stands for a text, and each side has a matrix of its own, which begins
as the identity. So a body that was never trained for it is used as it is. The plainest body is a table of word vectors: their
mean knows nothing of order, and learns more of few dialogues than an encoder does.

Differs from the papers in: both sides share their body, and no layer comes behind but that matrix. Dims: N texts.
"""

from __future__ import annotations

from typing import Any, Literal

import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.packing import Words
from regard.families import family_of
from regard.families.base import Heads, Sizes, all_words, random_ids
from regard.families.flops import Part, on_meta
from regard.families.flops import count as counted
from regard.families.word2vec import Word2VecConfig
from regard.model.heads import VectorPooling, VectorsConfig, text_vectors
from regard.model.init import initialise
from regard.model.layers import Linear

Side = Literal["contexts", "replies"]
BODY = Heads(words=False)


class Bag(nn.Module):
    """Each word alone, whatever stands around it."""

    def __init__(self, config: Word2VecConfig, vocabulary: int, seed: int = 0) -> None:
        super().__init__()
        self.config, self.words = config, nn.Embedding(vocabulary, config.width)
        initialise(self, seed)

    def hidden(self, ids_BL: Tensor, words: Words) -> Tensor:
        return self.words(ids_BL)


class TwoTower(nn.Module):
    """The body keeps its own names below `body.`, so that weights it was trained with elsewhere fit."""

    def __init__(self, body: Any, pooling: VectorPooling = "mean") -> None:
        super().__init__()
        self.body, self.pooled = body, VectorsConfig(pooling=pooling)
        width = body.config.width
        self.contexts, self.replies = Linear(width, width, bias=False), Linear(width, width, bias=False)
        for side in (self.contexts, self.replies):
            nn.init.eye_(side.weight)

    def forward(self, ids_BL: Tensor, words: Words, side: Side) -> Tensor:
        """x_ND of length 1, so that products are cosines."""
        x_ND = text_vectors(self.body.hidden(ids_BL, words), words, self.pooled)
        return F.normalize((self.contexts if side == "contexts" else self.replies)(x_ND), dim=-1)


def towers(config: Any, vocabulary: int, pooling: VectorPooling = "mean", seed: int = 0) -> TwoTower:
    """Build both towers from scratch; of word vectors, the body is their table."""
    family = family_of(config)
    if family.has("word_vectors"):
        return TwoTower(Bag(config, vocabulary, seed), pooling)
    return TwoTower(family.build(config, Sizes(vocabulary=vocabulary, heads=BODY), seed), pooling)


def count(config: Any, vocabulary: int, context: int, reply: int) -> Part:
    """Return the tree of both towers with the operations of one context and one reply of these lengths."""
    model = on_meta(lambda: towers(config, vocabulary))

    def run() -> None:
        model(random_ids(vocabulary, 1, context), all_words(1, context), "contexts")
        model(random_ids(vocabulary, 1, reply), all_words(1, reply), "replies")

    return counted(model, run, f"{config.family} towers")
