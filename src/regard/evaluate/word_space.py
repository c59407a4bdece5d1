"""Words as points: who is near whom, and what is to one word as another is to a third.

    near        by the cosine of the angle, or by Euclid's distance
    3CosAdd     the word nearest to king - man + woman, all of length 1 (Mikolov et al. 2013)
    3CosMul     the word with the most of cos(queen, king) cos(queen, woman) / (cos(queen, man) + 0.001), cosines moved to [0, 1]
                (Levy & Goldberg 2014, equation 5): no one of the three can outweigh the others

The words of a question are no answers to it, unless asked for: they mostly would be the best ones.

Dims: V words, D width, Q questions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from regard.data.word_vectors import WordVectors
from regard.errors import UserError, nearest

By = Literal["cosine", "euclid"]
Analogy = Literal["add", "mul"]
EPSILON = 1e-3
SUGGESTED = 50_000  # words among which a mistyped one is looked for


class Near(NamedTuple):
    word: str
    score: float  # a cosine; by Euclid a distance; 3CosMul's own


class Sum(NamedTuple):
    """king - man + woman."""

    plus: tuple[str, ...]
    minus: tuple[str, ...]


def typed_sum(text: str) -> Sum:
    """Words joined by + and - that stand alone, since many words have a hyphen."""
    signs: dict[str, list[str]] = {"+": [], "-": []}
    sign, expects_word = "+", True
    for field_ in text.split():
        if field_ in signs and (not expects_word or not signs["+"] + signs["-"]):
            sign, expects_word = field_, True
        elif expects_word:
            signs[sign].append(field_)
            expects_word = False
        else:
            raise UserError(f"{text!r}: between two words there must be + or -, as in 'king - man + woman'.")
    if expects_word:
        raise UserError(f"{text!r} ends without a word; write a word, or a sum such as 'king - man + woman'.")
    return Sum(tuple(signs["+"]), tuple(signs["-"]))


@dataclass(frozen=True, eq=False)
class WordSpace:
    vectors: WordVectors
    unit_VD: np.ndarray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        lengths_V1 = np.linalg.norm(self.vectors.vectors_VD, axis=1, keepdims=True)
        object.__setattr__(self, "unit_VD", self.vectors.vectors_VD / np.maximum(lengths_V1, 1e-12))

    def number(self, word: str) -> int:
        if (found := self.vectors.numbers.get(word)) is None:
            known = self.vectors.words[:SUGGESTED]
            raise UserError(f"the word {word!r} has no vector here{nearest(word, known)}")
        return found

    def nearest(
        self, asked: Sum, count: int, *, by: By = "cosine", analogy: Analogy = "add", exclude: bool = True, restrict: int = 0
    ) -> list[Near]:
        """The best answers, best first; of the first `restrict` words only, if not 0."""
        plus, minus = ([self.number(word) for word in words] for words in asked)
        size = min(restrict or len(self.vectors), len(self.vectors))
        if by == "euclid":
            point_D = self.vectors.vectors_VD[plus].sum(0) - self.vectors.vectors_VD[minus].sum(0)
            scores_V = -np.linalg.norm(self.vectors.vectors_VD[:size] - point_D, axis=1)
        elif analogy == "mul" and len(plus) + len(minus) > 1:
            scores_V = cos_mul(self.unit_VD[:size], self.unit_VD[plus][:, None], self.unit_VD[minus][:, None])[0]
        else:
            scores_V = cos_add(self.unit_VD[:size], self.unit_VD[plus][:, None], self.unit_VD[minus][:, None])[0]
        if exclude:
            scores_V[[n for n in (*plus, *minus) if n < size]] = -np.inf
        best = np.argsort(-scores_V, kind="stable")[:count]
        sign = -1.0 if by == "euclid" else 1.0
        return [Near(self.vectors.words[n], sign * float(scores_V[n])) for n in best if scores_V[n] > -np.inf]


def cos_add(unit_VD: np.ndarray, plus_PQD: np.ndarray, minus_MQD: np.ndarray) -> np.ndarray:
    """scores_QV: cosines with the sums of directions."""
    point_QD = plus_PQD.sum(0) - minus_MQD.sum(0)
    length_Q1 = np.maximum(np.linalg.norm(point_QD, axis=1, keepdims=True), 1e-12)
    scores_QV: np.ndarray = (point_QD / length_Q1) @ unit_VD.T
    return scores_QV


def cos_mul(unit_VD: np.ndarray, plus_PQD: np.ndarray, minus_MQD: np.ndarray) -> np.ndarray:
    """scores_QV of 3CosMul."""
    over_QV, under_QV = (_product(unit_VD, some) for some in (plus_PQD, minus_MQD))
    scores_QV: np.ndarray = over_QV / (under_QV + EPSILON)
    return scores_QV


def _product(unit_VD: np.ndarray, some: Sequence[np.ndarray] | np.ndarray) -> np.ndarray:
    found = np.ones((1, 1), unit_VD.dtype)
    for point_QD in some:
        found = found * ((1 + point_QD @ unit_VD.T) / 2)
    return found


def crowding(vectors_VD: np.ndarray, near: int = 10, asked: int = 500) -> float:
    """The mean cosine between a word and its ten nearest, of words from all over the vocabulary.

    Vectors begin with a common drift, as every word meets the same frequent ones; what tells words apart is learned later. On
    430,000 words of Wikipedia this is 0.95 to 0.99 after 5 epochs (skip-gram, GloVe and CBOW), when neighbours mean nothing, and
    0.64 to 0.90 after 20.
    """
    lengths_V = np.linalg.norm(vectors_VD, axis=1, keepdims=True)
    unit_VD = vectors_VD / np.where(lengths_V, lengths_V, 1.0)
    asked_Q = np.unique(np.linspace(0, len(unit_VD) - 1, min(asked, len(unit_VD))).astype(int))
    cosine_QV = unit_VD[asked_Q] @ unit_VD.T
    cosine_QV[np.arange(len(asked_Q)), asked_Q] = -np.inf
    return float(np.partition(cosine_QV, -near, axis=1)[:, -near:].mean())
