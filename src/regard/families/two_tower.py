"""Two towers: contexts and replies as vectors of one space, in which a context lies near what one would reply to it.

Henderson et al. 2017, "Efficient natural language response suggestion for Smart Reply", with the body shared as in Reimers &
Gurevych 2019: one body reads both, the mean of its words stands for a text, and each side has a matrix of its own, which begins
as the identity. So a body that was never trained for it is used as it is. The plainest body is a table of word vectors: their
mean knows nothing of order, and learns more of few dialogues than an encoder does.

Differs from the papers in: both sides share their body, and no layer comes behind but that matrix. Dims: N texts.
"""

from __future__ import annotations

from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.packing import Words
from regard.families import bert, encoder
from regard.families.base import Heads
from regard.families.bert import BERT, BERTConfig
from regard.families.encoder import Encoder, EncoderConfig
from regard.families.vectors import Pooling, VectorsConfig, text_vectors
from regard.families.word2vec import Word2VecConfig
from regard.model.flops import Part, embedding
from regard.model.init import initialise
from regard.model.linear import Linear

Config = BERTConfig | EncoderConfig | Word2VecConfig
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

    def __init__(self, body: BERT | Encoder | Bag, pooling: Pooling = "mean") -> None:
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


def towers(config: Config, vocabulary: int, pooling: Pooling = "mean", seed: int = 0) -> TwoTower:
    """From scratch."""
    if isinstance(config, Word2VecConfig):
        return TwoTower(Bag(config, vocabulary, seed), pooling)
    if isinstance(config, BERTConfig):
        return TwoTower(BERT(config, vocabulary, seed, BODY), pooling)
    return TwoTower(Encoder(config, vocabulary, seed, BODY), pooling)


def count(config: Config, vocabulary: int, context: int, reply: int) -> Part:
    """The model as a tree of parts with the operations of one context and one reply of these lengths."""
    read = _body(config, vocabulary, context)
    again = Part("once more", "the reply", "families/two_tower.py", own_flops=_body(config, vocabulary, reply).flops)
    width = config.width
    size = f"D={width} -> {width}"
    sides = [Part(side, size, "families/two_tower.py", width**2, 2 * width**2) for side in ("contexts", "replies")]
    return Part(
        f"{config.family} towers", f"B,L -> B,D={width}", "families/two_tower.py", children=(*read.children, again, *sides)
    )


def _body(config: Config, vocabulary: int, tokens: int) -> Part:
    if isinstance(config, Word2VecConfig):
        return Part("words", "", "families/two_tower.py", children=(embedding("words", vocabulary, config.width),))
    if isinstance(config, BERTConfig):
        return bert.count(config, vocabulary, tokens, heads=BODY)
    return encoder.count(config, vocabulary, tokens, heads=BODY)
