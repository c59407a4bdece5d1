"""GloVe: word vectors whose dot products approximate the logarithm of co-occurrence counts.

    J = sum_ij f(X_ij) (w_i . c_j + b_i + b'_j - log X_ij)^2      f(x) = min(1, (x / x_max)^alpha)

Pennington et al. 2014, equations 8 and 9.

The optimizer is AdaGrad (Duchi et al. 2011) as in the authors' program: half the gradient, times the rate, divided by the root
of 1 + the sum of its squares. Differs from it in: a batch of entries is one step, whose squares are summed first.

Dims: E entries, D width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import torch
from torch import Tensor

from regard.core.config import Bounds, check_bounds
from regard.data.batching.word_vectors import Entries
from regard.families.word2vec import Word2Vec


@dataclass(frozen=True, kw_only=True)
class GloVeConfig:
    name: Literal["glove"] = "glove"
    window: Annotated[int, Bounds(1, 100)] = 10  # words on either side
    symmetric: bool = True  # count neighbours on both sides; otherwise those before a word
    by_distance: bool = True  # a neighbour d words away counts 1/d
    x_max: Annotated[float, Bounds(0, above=True, example="100")] = 100.0  # counts above it have weight 1
    alpha: Annotated[float, Bounds(0, 10, example="0.75")] = 0.75  # the power in the weight of lower counts
    part = 4096  # entries computed together
    passes = 1  # through a batch
    products = 1  # dot products of an entry

    def __post_init__(self) -> None:
        check_bounds(self, "objective.")


class Gradients(NamedTuple):
    """Half the gradient of J for each entry, of one table and its biases."""

    rows_E: Tensor
    vectors_ED: Tensor
    biases_E: Tensor


class GloVe:
    """Computes and applies the steps of a batch, with the interface of `NegativeSampling`."""

    def __init__(self, tables: Word2Vec, config: GloVeConfig) -> None:
        self.tables, self.config = tables, config
        self.both = (tables.words.weight.data, tables.contexts.weight.data)
        self.biases = (tables.word_bias_V.data, tables.context_bias_V.data)
        names = ("words", "contexts", "word_biases", "context_biases")
        self.moments = {name: torch.ones_like(each) for name, each in zip(names, self.both + self.biases)}  # sums of squares

    def compute_steps(self, part: Entries) -> tuple[list[Gradients], list[Gradients]]:
        w_ED, c_ED, off_E, weight_E = self._errors(part)
        error_E = weight_E * off_E
        return (
            [Gradients(part.rows_E, error_E[:, None] * c_ED, error_E)],
            [Gradients(part.columns_E, error_E[:, None] * w_ED, error_E)],
        )

    def apply_steps(self, table: int, found: Sequence[Gradients], rate: float) -> None:
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
        """Return the mean of J over these entries."""
        _, _, off_E, weight_E = self._errors(part)
        return float((weight_E * off_E**2).mean())

    def _errors(self, part: Entries) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the vectors of both words, the error of their product, and the weight f."""
        w_ED, c_ED = self.both[0].index_select(0, part.rows_E), self.both[1].index_select(0, part.columns_E)
        biases_E = self.biases[0].index_select(0, part.rows_E) + self.biases[1].index_select(0, part.columns_E)
        off_E = (w_ED * c_ED).sum(1) + biases_E - part.counts_E.log()
        return w_ED, c_ED, off_E, (part.counts_E / self.config.x_max).clamp_max(1.0) ** self.config.alpha
