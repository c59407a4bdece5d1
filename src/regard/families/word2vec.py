"""Static word vectors: two tables, of words as they are asked and as they stand around others, and nothing else.

Mikolov et al. 2013 (word2vec) keep the first table, Pennington et al. 2014 (GloVe) the sum of both and a bias a word beside each.
As in their programs, first vectors are small and uniform; of word2vec the second table begins at zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from regard.core.errors import UserError
from regard.core.rng import generator
from regard.families.base import Family, Sizes, random_ids
from regard.model.flops import Part


@dataclass(frozen=True, kw_only=True)
class Word2VecConfig:
    family: Literal["word2vec"] = "word2vec"
    width: int = 100

    packable = False
    position = "none"

    def __post_init__(self) -> None:
        if not 1 <= self.width <= 10_000:
            raise UserError(f"model.width={self.width} must be from 1 to 10,000.")


class Word2Vec(nn.Module):
    """`counted`: as GloVe has it, with biases, and both tables drawn."""

    def __init__(self, config: Word2VecConfig, vocabulary: int, seed: int = 0, *, counted: bool = False) -> None:
        super().__init__()
        self.config, self.counted = config, counted
        self.words, self.contexts = (nn.Embedding(vocabulary, config.width, _weight=w) for w in _drawn(config, vocabulary, seed))
        if counted:
            self.word_bias_V, self.context_bias_V = (nn.Parameter(torch.zeros(vocabulary)) for _ in "ab")
        else:
            nn.init.zeros_(self.contexts.weight)
        self.requires_grad_(False)  # steps are taken by hand

    def forward(self, words_B: Tensor, contexts_BL: Tensor) -> Tensor:
        """Return scores_BL of each word with its contexts: products of their vectors, and both biases."""
        scores_BL = (self.contexts(contexts_BL) @ self.words(words_B)[..., None])[..., 0]
        return scores_BL + self.word_bias_V[words_B, None] + self.context_bias_V[contexts_BL] if self.counted else scores_BL

    def vectors(self) -> Tensor:
        """vectors_VD, as they are used."""
        return self.words.weight + self.contexts.weight if self.counted else self.words.weight


def _drawn(config: Word2VecConfig, vocabulary: int, seed: int) -> list[Tensor]:
    chance, width = generator(seed, "word tables"), config.width
    return [torch.from_numpy((chance.random((vocabulary, width), np.float32) - 0.5) / np.float32(width)) for _ in "ab"]


def count(config: Word2VecConfig, vocabulary: int, *, products: float = 1, counted: bool = False) -> Part:
    """As a tree of parts; the operations are those of one word, which is multiplied with so many others."""
    shape, numbers = f"V={vocabulary:,}, D={config.width}", vocabulary * (config.width + counted)
    tables = [Part(name, shape, "families/word2vec.py", numbers) for name in ("words", "contexts")]
    flops = round(2 * config.width * products)
    return Part("words", "word, neighbour -> 1", "families/word2vec.py", own_flops=flops, children=tuple(tables))


def _inputs(config: Word2VecConfig, sizes: Sizes, batch: int, length: int, source: int) -> tuple[Tensor, Tensor]:
    """Return (words_B, contexts_BL)."""
    return random_ids(sizes.vocabulary, batch, 1)[:, 0], random_ids(sizes.vocabulary, batch, length)


FAMILY = Family(
    name="word2vec",
    config=Word2VecConfig,
    build=lambda config, sizes, seed: Word2Vec(config, sizes.vocabulary, seed, counted=sizes.word_biases),
    inputs=_inputs,
    capabilities=frozenset({"word_vectors", "tower"}),
)
