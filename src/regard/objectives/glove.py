"""GloVe: word vectors whose products are the logarithms of how often words stand near each other.

    J = sum_ij f(X_ij) (w_i . c_j + b_i + b'_j - log X_ij)^2      f(x) = min(1, (x / x_max)^alpha)

Pennington et al. 2014, equations 8 and 9.

Steps are AdaGrad's (Duchi et al. 2011), as the authors' program takes them: half the gradient, times the rate, by the root of
1 + the sum of its squares. Differs from it in: a batch of entries is stepped on at once, its squares summed before.

Dims: E entries, D width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from regard.core.errors import UserError
from regard.data.batching.word_vectors import Entries
from regard.families.word2vec import Word2Vec


@dataclass(frozen=True, kw_only=True)
class GloVeConfig:
    name: Literal["glove"] = "glove"
    window: int = 10  # words on either side
    symmetric: bool = True  # neighbours on both sides count; else those before a word
    by_distance: bool = True  # a neighbour d words away counts 1/d
    x_max: float = 100.0  # a count from which on all weigh alike
    alpha: float = 0.75  # by which power those below weigh less
    part = 4096  # entries of a batch that are worked on together
    passes = 1  # through a batch
    products = 1  # of vectors, for an entry

    def __post_init__(self) -> None:
        if not 1 <= self.window <= 100:
            raise UserError(f"objective.window={self.window} must be from 1 to 100.")
        if not 0 < self.x_max < float("inf"):
            raise UserError(f"objective.x_max={self.x_max} must be a number above 0, such as 100.")
        if not 0 <= self.alpha <= 10:
            raise UserError(f"objective.alpha={self.alpha} must be from 0 to 10, such as 0.75.")


class Gradients(NamedTuple):
    """Half of those of J, by entry, for one table and its biases."""

    rows_E: Tensor
    vectors_ED: Tensor
    biases_E: Tensor


class GloVe:
    """The steps of a batch in two turns, as `NegativeSampling` has them."""

    def __init__(self, tables: Word2Vec, config: GloVeConfig) -> None:
        self.tables, self.config = tables, config
        self.both = (tables.words.weight.data, tables.contexts.weight.data)
        self.biases = (tables.word_bias_V.data, tables.context_bias_V.data)
        names = ("words", "contexts", "word_biases", "context_biases")
        self.moments = {name: torch.ones_like(each) for name, each in zip(names, self.both + self.biases)}  # sums of squares

    def find(self, part: Entries) -> tuple[list[Gradients], list[Gradients]]:
        w_ED, c_ED, off_E, weight_E = self._off(part)
        error_E = weight_E * off_E
        return (
            [Gradients(part.rows_E, error_E[:, None] * c_ED, error_E)],
            [Gradients(part.columns_E, error_E[:, None] * w_ED, error_E)],
        )

    def take(self, table: int, found: Sequence[Gradients], rate: float) -> None:
        side = ("word", "context")[table]
        vectors, biases = self.moments[f"{side}s"], self.moments[f"{side}_biases"]
        for gradients in found:
            for what, squares, step in (
                (self.both[table], vectors, gradients.vectors_ED),
                (self.biases[table], biases, gradients.biases_E),
            ):
                step = rate * step
                squares.index_add_(0, gradients.rows_E, step * step)
                step.div_(squares.index_select(0, gradients.rows_E).sqrt_())
                what.index_add_(0, gradients.rows_E, step.neg_())

    def loss(self, part: Entries) -> float:
        """J of these entries, as a mean."""
        _, _, off_E, weight_E = self._off(part)
        return float((weight_E * off_E**2).mean())

    def _off(self, part: Entries) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Vectors of both words, by how much they miss the logarithm, and f."""
        w_ED, c_ED = self.both[0].index_select(0, part.rows_E), self.both[1].index_select(0, part.columns_E)
        biases_E = self.biases[0].index_select(0, part.rows_E) + self.biases[1].index_select(0, part.columns_E)
        off_E = (w_ED * c_ED).sum(1) + biases_E - part.counts_E.log()
        return w_ED, c_ED, off_E, (part.counts_E / self.config.x_max).clamp_max(1.0) ** self.config.alpha
