"""One word in several sentences: how far apart its vectors are, layer by layer.

A static embedding has one vector for a word, whatever stands around it; a model that reads gives each use its own. The distance
is 1 - cosine. Beside it stands that between different words of the same sentences, since in some models all vectors are near each
other (Ethayarajh 2019, section 3.3). Where senses are known, the score of a layer is the share of comparisons in which two
uses of one sense are nearer than two of different senses: 1/2 is chance.

Dims: L rows (the static embedding, the embedding with positions, each layer), U uses, P pairs of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

import numpy as np

STATIC = "words"


@dataclass(frozen=True)
class Use:
    sentence: str
    start: int  # of the word in it
    end: int
    pieces: tuple[str, ...]  # that the model reads the word as
    sense: str = ""

    @property
    def word(self) -> str:
        return self.sentence[self.start : self.end]


class Senses(NamedTuple):
    """Means by layer of the distances between uses of one sense and of different ones, and the score."""

    within_L: np.ndarray
    between_L: np.ndarray
    score_L: np.ndarray


@dataclass(frozen=True, eq=False)
class WordUses:
    word: str
    model: str
    uses: tuple[Use, ...]
    vectors: tuple[np.ndarray, ...]  # by layer, (uses, width); those of the static embedding first
    others_L: np.ndarray  # mean distance between different words of the sentences; NaN where there is but one
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.uses) < 2:
            raise ValueError(f"distances are between two uses or more; there are {len(self.uses)}.")
        if any(len(vectors) != len(self.uses) for vectors in self.vectors) or len(self.others_L) != len(self.vectors):
            raise ValueError(f"every layer needs {len(self.uses)} vectors, one a use, and a distance of other words.")

    @property
    def layers(self) -> tuple[str, ...]:
        return (STATIC, *map(str, range(len(self.vectors) - 1)))

    @property
    def pairs(self) -> list[tuple[int, int]]:
        return list(combinations(range(len(self.uses)), 2))

    @cached_property
    def distances_LUU(self) -> np.ndarray:
        return np.stack([distances(vectors) for vectors in self.vectors])

    @property
    def pairs_LP(self) -> np.ndarray:
        """Distances of `pairs`, in their order."""
        return self.distances_LUU[:, *np.triu_indices(len(self.uses), 1)]

    @property
    def mean_L(self) -> np.ndarray:
        return self.pairs_LP.mean(1)

    @property
    def one_spelling(self) -> bool:
        """True if the model reads the word as the same pieces everywhere; if not, even static vectors differ."""
        return len({use.pieces for use in self.uses}) == 1

    @property
    def labelled(self) -> bool:
        return bool(self.uses[0].sense)

    @property
    def order(self) -> list[int]:
        """Order in which uses are shown: those of one sense together, in the order that senses come in."""
        rank = {sense: n for n, sense in enumerate(dict.fromkeys(use.sense for use in self.uses))}
        return sorted(range(len(self.uses)), key=lambda n: rank[self.uses[n].sense])

    @cached_property
    def alike_P(self) -> np.ndarray:
        """True for pairs of one sense."""
        return np.array([self.uses[a].sense == self.uses[b].sense for a, b in self.pairs])

    @property
    def senses(self) -> Senses | None:
        """Distances by sense; None without two uses of one sense and two of different ones."""
        alike = self.alike_P
        if not self.labelled or alike.all() or not alike.any():
            return None
        within_LP, between_LP = self.pairs_LP[:, alike], self.pairs_LP[:, ~alike]
        score_L = np.array([_nearer(within, between) for within, between in zip(within_LP, between_LP)])
        return Senses(within_LP.mean(1), between_LP.mean(1), score_L)


def distances(vectors_UD: np.ndarray) -> np.ndarray:
    """1 - cosine of every two, as half the squared distance of their directions: exactly 0 for equal vectors, never below."""
    unit_UD = _unit(vectors_UD)
    return np.stack([((unit_UD - one_D) ** 2).sum(-1) / 2 for one_D in unit_UD])


def mean_distance(vectors_UD: np.ndarray) -> float:
    """Return the mean distance of all pairs, without a loop over pairs; NaN for fewer than two vectors."""
    unit_UD, count = _unit(vectors_UD), len(vectors_UD)
    if count < 2:
        return float("nan")
    return float(1 - ((unit_UD.sum(0) ** 2).sum() - count) / (count * (count - 1)))


def _unit(vectors_UD: np.ndarray) -> np.ndarray:
    vectors_UD = vectors_UD.astype(np.float64)
    return vectors_UD / np.maximum(np.linalg.norm(vectors_UD, axis=-1, keepdims=True), 1e-12)


def _nearer(within: np.ndarray, between: np.ndarray) -> float:
    """The chance that one of `within` is less than one of `between`; equal ones count half."""
    ordered = np.sort(within)
    below, up_to = np.searchsorted(ordered, between, "left"), np.searchsorted(ordered, between, "right")
    return float((below + up_to).mean() / (2 * len(within)))
