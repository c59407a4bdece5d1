"""Analogies: of how many questions the answer is found; of all, of those whose words are known, and with 30,000 words.

Mikolov et al. 2013, section 4. A question is "a is to b as c is to ?"; right is the one word that the file has, and nothing else.
Upper and lower case are the same, as in the authors' program; of words that differ in that alone, the most frequent is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from regard.data.word_tests import Question, Questions
from regard.evaluate.word_space import Analogy, WordSpace, cos_add, cos_mul

TOGETHER = 2**25  # scores that are computed at a time


class Tally(NamedTuple):
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
            section: Tally(_right(space, asked, known, rows, analogy, exclude), _known(asked, known), len(asked))
            for section, asked in questions.sections.items()
        }
    return AnalogyScores(questions.name, analogy, found[len(space.vectors)], found[size], restrict)


def folded(words: Sequence[str]) -> dict[str, int]:
    """The number of each word by its lower-case form; of several, the first."""
    found: dict[str, int] = {}
    for number, word in enumerate(words):
        found.setdefault(word.lower(), number)
    return found


def _known(asked: Sequence[Question], known: dict[str, int]) -> int:
    return sum(all(word.lower() in known for word in question) for question in asked)


def _right(
    space: WordSpace, asked: Sequence[Question], known: dict[str, int], rows: np.ndarray, analogy: Analogy, exclude: bool
) -> int:
    """Among `rows`, the words that may be answers."""
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
    return right
