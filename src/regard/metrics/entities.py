"""Entity scores as conlleval computes them (Tjong Kim Sang & De Meulder 2003): right if words and type are right.

Precision is the share of predicted entities that are right, recall the share of true ones that are predicted, F1 their harmonic
mean; over all types together (micro), and for each type. The confusion matrix counts types of entities whose words are right.

Dims: T types, and one more for no entity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from regard.data.tagset import Span, spans
from regard.metrics.classification import confusion_lines

NONE, NO_TYPE = "-", ""  # no entity with these words: in the printed table, and as a key


class TypeScore(NamedTuple):
    """The scores of one entity type."""

    type: str
    precision: float
    recall: float
    f1: float
    entities: int


@dataclass(frozen=True, eq=False)
class EntityScores:
    """The confusion matrix of entity types, and the scores derived from it."""

    types: tuple[str, ...]
    confusion_TT: np.ndarray  # rows are true, columns predicted; the last of both is no entity
    words: int
    right_words: int  # that have the right tag
    sentences: int
    right_sentences: int  # in which every word has
    nll: float  # of the true tag, in nats a word

    @classmethod
    def of(cls, types: Sequence[str], true: Sequence[Sequence[str]], said: Sequence[Sequence[str]], nll: float) -> EntityScores:
        """Return the scores of predicted against true tags of sentences, both in the same scheme."""
        number = {name: n for n, name in enumerate((*types, NO_TYPE))}
        confusion = np.zeros((len(types) + 1, len(types) + 1), np.int64)
        for tags, others in zip(true, said):
            are, were = by_words(spans(tags)), by_words(spans(others))
            for place in are | were:
                confusion[number[are.get(place, NO_TYPE)], number[were.get(place, NO_TYPE)]] += 1
        right = [sum(a == b for a, b in zip(tags, others)) for tags, others in zip(true, said)]
        words = sum(map(len, true))
        whole = sum(count == len(tags) for count, tags in zip(right, true))
        return cls(tuple(types), confusion, words, sum(right), len(true), whole, nll)

    @property
    def true(self) -> int:
        return int(self.confusion_TT[:-1].sum())

    @property
    def said(self) -> int:
        return int(self.confusion_TT[:, :-1].sum())

    @property
    def right(self) -> int:
        return int(np.trace(self.confusion_TT))  # where both are none, there is nothing to count

    @property
    def precision(self) -> float:
        return _ratio(self.right, self.said)

    @property
    def recall(self) -> float:
        return _ratio(self.right, self.true)

    @property
    def f1(self) -> float:
        return _ratio(2 * self.right, self.said + self.true)

    @property
    def accuracy(self) -> float:
        return _ratio(self.right_words, self.words)

    @property
    def whole(self) -> float:
        return _ratio(self.right_sentences, self.sentences)

    def by_type(self) -> list[TypeScore]:
        true_T, said_T, right_T = self.confusion_TT.sum(1), self.confusion_TT.sum(0), self.confusion_TT.diagonal()
        return [
            TypeScore(name, _ratio(right, said), _ratio(right, true), _ratio(2 * right, said + true), int(true))
            for name, true, said, right in zip(self.types, true_T, said_T, right_T)
        ]

    def lines(self) -> list[str]:
        """Return the lines that are printed."""
        width = max(5, *(len(name) for name in self.types))
        return [
            f"F1         {self.f1:7.2%}  of {self.true:,} entities, {self.said:,} said, {self.right:,} right",
            f"precision  {self.precision:7.2%}",
            f"recall     {self.recall:7.2%}",
            f"accuracy   {self.accuracy:7.2%}  {self.right_words:,} of {self.words:,} words have the right tag",
            f"sentences  {self.whole:7.2%}  {self.right_sentences:,} of {self.sentences:,} have all tags right",
            f"nll        {self.nll:7.4f}  nats a word",
            f"{'':<{width}}  precision  recall      F1  entities",
            *(f"{t.type:<{width}}  {t.precision:9.2%} {t.recall:7.2%} {t.f1:7.2%} {t.entities:9,}" for t in self.by_type()),
            *confusion_lines((*self.types, NONE), self.confusion_TT),
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return the scores as JSON values."""
        whole = {name: getattr(self, name) for name in ("sentences", "words", "f1", "precision", "recall", "accuracy", "nll")}
        types = [score._asdict() for score in self.by_type()]
        return whole | {"types": types, "labels": [*self.types, NONE], "confusion": self.confusion_TT.tolist()}


def by_words(found: Sequence[Span]) -> dict[tuple[int, int], str]:
    """Return the type of each entity by its words."""
    return {(span.start, span.end): span.type for span in found}


def _ratio(part: int, whole: int) -> float:
    return float(part / whole) if whole else 0.0
