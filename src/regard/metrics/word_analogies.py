"""Nearest words and analogies of word vectors.

    near        by the cosine of the angle, or by Euclid's distance
    3CosAdd     the word nearest to king - man + woman, all of length 1 (Mikolov et al. 2013)
    3CosMul     the word with the most of cos(queen, king) cos(queen, woman) / (cos(queen, man) + 0.001), cosines moved to [0, 1]
                (Levy & Goldberg 2014, equation 5): none of the three can outweigh the others

The words of a question are excluded as answers by default, since they would mostly be the best ones.

Analogy scores: the share of questions answered rightly; of all, of those whose words are known, and with 30,000 words.

Mikolov et al. 2013, section 4. A question is "a is to b as c is to ?"; right is the one word that the file has, and nothing else.
Case is ignored, as in the authors' program; of words that differ only in case, the most frequent is taken.

Dims: V words, D width, Q questions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from regard.core.errors import UserError, nearest
from regard.data.sources.word_vectors import Question, Questions, WordVectors

By = Literal["cosine", "euclid"]
Analogy = Literal["add", "mul"]
EPSILON = 1e-3
SUGGESTED = 50_000  # words searched for a suggestion when a word is unknown


class Near(NamedTuple):
    """A word and its score."""

    word: str
    score: float  # a cosine; by Euclid a distance; 3CosMul's own


class Sum(NamedTuple):
    """king - man + woman."""

    plus: tuple[str, ...]
    minus: tuple[str, ...]


def typed_sum(text: str) -> Sum:
    """Parse words joined by + and - between spaces, since many words have a hyphen."""
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
    """Word vectors and their directions."""

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
        """Return the best answers, best first; only of the first `restrict` words, if not 0."""
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
    """Return scores_QV: cosines with the sums of directions."""
    point_QD = plus_PQD.sum(0) - minus_MQD.sum(0)
    length_Q1 = np.maximum(np.linalg.norm(point_QD, axis=1, keepdims=True), 1e-12)
    scores_QV: np.ndarray = (point_QD / length_Q1) @ unit_VD.T
    return scores_QV


def cos_mul(unit_VD: np.ndarray, plus_PQD: np.ndarray, minus_MQD: np.ndarray) -> np.ndarray:
    """Return scores_QV of 3CosMul."""
    over_QV, under_QV = (_product(unit_VD, some) for some in (plus_PQD, minus_MQD))
    scores_QV: np.ndarray = over_QV / (under_QV + EPSILON)
    return scores_QV


def _product(unit_VD: np.ndarray, some: Sequence[np.ndarray] | np.ndarray) -> np.ndarray:
    found = np.ones((1, 1), unit_VD.dtype)
    for point_QD in some:
        found = found * ((1 + point_QD @ unit_VD.T) / 2)
    return found


def crowding(vectors_VD: np.ndarray, near: int = 10, asked: int = 500) -> float:
    """Return the mean cosine between a word and its ten nearest, for words from all parts of the vocabulary.

    Vectors first share a common direction, as every word meets the same frequent ones; differences are learned later. On 430,000
    words of Wikipedia this is 0.95 to 0.99 after 5 epochs (skip-gram, GloVe and CBOW), when neighbours mean nothing, and 0.64 to
    0.90 after 20.
    """
    lengths_V = np.linalg.norm(vectors_VD, axis=1, keepdims=True)
    unit_VD = vectors_VD / np.where(lengths_V, lengths_V, 1.0)
    asked_Q = np.unique(np.linspace(0, len(unit_VD) - 1, min(asked, len(unit_VD))).astype(int))
    cosine_QV = unit_VD[asked_Q] @ unit_VD.T
    cosine_QV[np.arange(len(asked_Q)), asked_Q] = -np.inf
    return float(np.partition(cosine_QV, -near, axis=1)[:, -near:].mean())


TOGETHER = 2**25  # scores that are computed at a time


class Tally(NamedTuple):
    """Counts of analogy questions."""

    right: int
    known: int  # questions whose words all have vectors
    asked: int

    def __add__(self, other: object) -> Tally:
        assert isinstance(other, Tally)
        return Tally(*(a + b for a, b in zip(tuple(self), tuple(other))))

    @property
    def of_all(self) -> float:
        return self.right / self.asked

    @property
    def of_known(self) -> float:
        return self.right / self.known if self.known else 0.0


@dataclass(frozen=True)
class AnalogyScores:
    """Analogy scores by section."""

    name: str
    analogy: Analogy
    sections: dict[str, Tally]  # with all words
    restricted: dict[str, Tally]  # with the first `words` of them
    words: int

    @property
    def total(self) -> Tally:
        return sum(self.sections.values(), Tally(0, 0, 0))

    @property
    def restricted_total(self) -> Tally:
        return sum(self.restricted.values(), Tally(0, 0, 0))

    def lines(self) -> list[str]:
        total, fewer = self.total, self.restricted_total
        width = max(map(len, self.sections))
        rows = [
            f"  {section:<{width}}  {100 * t.of_known:6.2f}  {t.right:,} of {t.known:,} in vocabulary, {t.asked:,} asked"
            for section, t in self.sections.items()
        ]
        return [
            f"analogies, {self.name} (3Cos{self.analogy.capitalize()}), % right",
            *rows,
            f"all questions  {100 * total.of_all:6.2f}  of {total.asked:,}",
            f"in vocabulary  {100 * total.of_known:6.2f}  of {total.known:,}",
            f"{self.words:,} words {100 * fewer.of_known:7.2f}  of {fewer.known:,}",
        ]

    def as_dict(self) -> dict[str, Any]:
        sections = {name: {"right": t.right, "in_vocabulary": t.known, "asked": t.asked} for name, t in self.sections.items()}
        total, fewer = self.total, self.restricted_total
        return {
            "analogies": self.name,
            "analogy": self.analogy,
            "all": total.of_all,
            "in_vocabulary": total.of_known,
            f"first_{self.words}_words": fewer.of_known,
            "questions": {"asked": total.asked, "in_vocabulary": total.known, f"first_{self.words}_words": fewer.known},
            "sections": sections,
        }


def score_analogies(
    space: WordSpace, questions: Questions, *, analogy: Analogy = "add", exclude: bool = True, restrict: int = 30_000
) -> AnalogyScores:
    numbers = folded(space.vectors.words)
    size = min(restrict, len(space.vectors))
    found = {}
    for words in (len(space.vectors), size):
        known = {word: number for word, number in numbers.items() if number < words}
        rows = np.array(sorted(known.values()))
        found[words] = {
            section: Tally(*_right(space, asked, known, rows, analogy, exclude), len(asked))
            for section, asked in questions.sections.items()
        }
    return AnalogyScores(questions.name, analogy, found[len(space.vectors)], found[size], restrict)


def folded(words: Sequence[str]) -> dict[str, int]:
    """Return the number of each word by its lower-case form; of several, the first."""
    found: dict[str, int] = {}
    for number, word in enumerate(words):
        found.setdefault(word.lower(), number)
    return found


def _right(
    space: WordSpace, asked: Sequence[Question], known: dict[str, int], rows: np.ndarray, analogy: Analogy, exclude: bool
) -> tuple[int, int]:
    """Return how many questions are answered rightly, and how many could be; `rows` are the words that may be answers."""
    place = {int(row): n for n, row in enumerate(rows)}
    asked_Q4 = [[place[known[word.lower()]] for word in q] for q in asked if all(word.lower() in known for word in q)]
    unit_VD, right, score = space.unit_VD[rows], 0, cos_add if analogy == "add" else cos_mul
    step = max(1, TOGETHER // len(rows))
    for begin in range(0, len(asked_Q4), step):
        a, b, c, d = np.array(asked_Q4[begin : begin + step]).T
        scores_QV = score(unit_VD, unit_VD[np.stack([b, c])], unit_VD[a[None]])
        if exclude:
            for given in (a, b, c):
                scores_QV[np.arange(len(a)), given] = -np.inf
        right += int((scores_QV.argmax(1) == d).sum())
    return right, len(asked_Q4)
