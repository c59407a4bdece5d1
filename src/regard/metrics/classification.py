"""Classification scores: accuracy, F1, Matthews' correlation, all from one confusion matrix.

MCC (Matthews 1975; for several classes Gorodkin 2004) is the correlation of true and predicted labels: 1 is perfect, 0 is
guessing or a constant prediction, whatever the class sizes. Macro F1 is the mean over the classes that occur, as true or
predicted label; a class that is never predicted, or never true, has a precision, or a recall, of 0. Micro F1, of all texts
together, is the accuracy, since a text has one label. For two classes the F1 of the second (1, true, yes, positive) is reported
too: MRPC's score.

Entity scores as conlleval computes them (Tjong Kim Sang & De Meulder 2003): right if words and type are right. Precision is the
share of predicted entities that are right, recall the share of true ones that are predicted, F1 their harmonic mean; over all
types together (micro), and for each type. The confusion matrix counts types of entities whose words are right.

Dims: C classes; T types of entities, and one more for no entity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from regard.data.tagset import Span, spans


class ClassScore(NamedTuple):
    """The scores of one class, or of one type of entities."""

    name: str
    precision: float
    recall: float
    f1: float
    true: int  # texts of the class, or entities of the type


@dataclass(frozen=True, eq=False)
class ClassificationScores:
    """The confusion matrix of a classifier, and the scores derived from it."""

    labels: tuple[str, ...]
    confusion_CC: np.ndarray  # rows are true, columns predicted
    nll: float  # of the true label, in nats a text
    unit: str = "texts"  # what has a label, in printed lines

    @classmethod
    def of(
        cls, labels: Sequence[str], true: np.ndarray, said: np.ndarray, nll: float, unit: str = "texts"
    ) -> ClassificationScores:
        size = len(labels)
        confusion = np.bincount(np.asarray(true) * size + np.asarray(said), minlength=size * size).reshape(size, size)
        return cls(tuple(labels), confusion, nll, unit)

    @property
    def texts(self) -> int:
        return int(self.confusion_CC.sum())

    @property
    def right(self) -> int:
        return int(np.trace(self.confusion_CC))

    @property
    def accuracy(self) -> float:
        return self.right / self.texts

    @property
    def constant(self) -> float:
        """The accuracy of always predicting the most frequent label."""
        return float(self.confusion_CC.sum(1).max() / self.texts)

    def classes(self) -> list[ClassScore]:
        return class_scores(self.labels, self.confusion_CC)

    @property
    def macro_f1(self) -> float:
        occurs_C = self.confusion_CC.sum(0) + self.confusion_CC.sum(1) > 0
        return float(np.mean([score.f1 for score, occurs in zip(self.classes(), occurs_C) if occurs]))

    @property
    def positive(self) -> ClassScore | None:
        """The scores of the second of two classes, None where there are more."""
        return self.classes()[1] if len(self.labels) == 2 else None

    @property
    def mcc(self) -> float:
        true_C, said_C, texts = self.confusion_CC.sum(1).astype(float), self.confusion_CC.sum(0).astype(float), float(self.texts)
        spread = (texts**2 - said_C @ said_C) * (texts**2 - true_C @ true_C)
        return float((self.right * texts - true_C @ said_C) / spread**0.5) if spread else 0.0

    def lines(self) -> list[str]:
        """Return the lines that are printed."""
        return [
            f"accuracy   {self.accuracy:7.2%}  {self.right:,} of {self.texts:,} {self.unit}; "
            f"one answer for all: {self.constant:.2%}",
            f"macro F1   {self.macro_f1:7.2%}",
            *([f"F1         {self.positive.f1:7.2%}  of {self.positive.name!r}"] if self.positive else []),
            f"MCC        {self.mcc:7.4f}",
            f"nll        {self.nll:7.4f}  nats {one_of(self.unit)}",
            *class_lines(self.classes(), self.unit),
            *confusion_lines(self.labels, self.confusion_CC),
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return the scores as JSON values."""
        whole: dict[str, Any] = {self.unit: self.texts}
        whole |= {name: getattr(self, name) for name in ("accuracy", "constant", "macro_f1", "mcc", "nll")}
        whole |= {"micro_f1": self.accuracy}
        if self.positive:
            whole |= {"f1": self.positive.f1, "f1_of": self.positive.name}
        return whole | {
            "classes": class_dicts(self.classes(), "label", self.unit),
            "labels": list(self.labels),
            "confusion": self.confusion_CC.tolist(),
        }


def one_of(unit: str) -> str:
    """Return one of a unit that ends in s: a text, an image."""
    return f"{'an' if unit[0] in 'aeio' else 'a'} {unit.removesuffix('s')}"


def _ratio(part: int, whole: int) -> float:
    return float(part / whole) if whole else 0.0


def class_scores(names: Sequence[str], confusion_CC: np.ndarray) -> list[ClassScore]:
    """Return the scores of each name; rows and columns of the matrix beyond the names have none of their own."""
    true_C, said_C, right_C = confusion_CC.sum(1), confusion_CC.sum(0), confusion_CC.diagonal()
    return [
        ClassScore(name, _ratio(right, said), _ratio(right, true), _ratio(2 * right, said + true), int(true))
        for name, true, said, right in zip(names, true_C, said_C, right_C)
    ]


def class_lines(scores: Sequence[ClassScore], unit: str) -> list[str]:
    """Return a table with a line for each class."""
    width = max(5, *(len(score.name) for score in scores))
    head = f"{'':<{width}}  precision  recall      F1  {unit}"
    column = len(unit) + 1
    return [head, *(f"{c.name:<{width}}  {c.precision:9.2%} {c.recall:7.2%} {c.f1:7.2%} {c.true:{column},}" for c in scores)]


def class_dicts(scores: Sequence[ClassScore], name: str, unit: str) -> list[dict[str, Any]]:
    """Return the scores as JSON values, with keys for what has a name and what is counted."""
    return [{name: c.name, "precision": c.precision, "recall": c.recall, "f1": c.f1, unit: c.true} for c in scores]


WIDE = 12  # classes: up to here the whole table is shown


def confusion_lines(labels: Sequence[str], confusion_CC: np.ndarray) -> list[str]:
    """Return the confusion matrix as lines, or its most frequent confusions where it is too wide."""
    if len(labels) > WIDE:
        return _most_frequent(labels, confusion_CC)
    width = max(5, *(len(label) for label in labels))
    header = "  ".join(f"{label:>6}" for label in labels)
    rows = ["  ".join(f"{n:>{max(6, len(label))},}" for n, label in zip(row, labels)) for row in confusion_CC]
    return [f"{'said:':<{width}}  {header}", *(f"{label:<{width}}  {row}" for label, row in zip(labels, rows))]


def _most_frequent(labels: Sequence[str], confusion_CC: np.ndarray) -> list[str]:
    wrong = confusion_CC - np.diag(confusion_CC.diagonal())
    places = [divmod(int(n), len(labels)) for n in np.argsort(-wrong, axis=None, kind="stable")[:WIDE]]
    return [f"{wrong[t, s]:,} x {labels[t]} taken for {labels[s]}" for t, s in places if wrong[t, s]]


NONE, NO_TYPE = "-", ""  # no entity with these words: in the printed table, and as a key


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

    def by_type(self) -> list[ClassScore]:
        return class_scores(self.types, self.confusion_TT)

    def lines(self) -> list[str]:
        """Return the lines that are printed."""
        return [
            f"F1         {self.f1:7.2%}  of {self.true:,} entities, {self.said:,} said, {self.right:,} right",
            f"precision  {self.precision:7.2%}",
            f"recall     {self.recall:7.2%}",
            f"accuracy   {self.accuracy:7.2%}  {self.right_words:,} of {self.words:,} words have the right tag",
            f"sentences  {self.whole:7.2%}  {self.right_sentences:,} of {self.sentences:,} have all tags right",
            f"nll        {self.nll:7.4f}  nats a word",
            *class_lines(self.by_type(), "entities"),
            *confusion_lines((*self.types, NONE), self.confusion_TT),
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return the scores as JSON values."""
        whole = {name: getattr(self, name) for name in ("sentences", "words", "f1", "precision", "recall", "accuracy", "nll")}
        types = class_dicts(self.by_type(), "type", "entities")
        return whole | {"types": types, "labels": [*self.types, NONE], "confusion": self.confusion_TT.tolist()}


def by_words(found: Sequence[Span]) -> dict[tuple[int, int], str]:
    """Return the type of each entity by its words."""
    return {(span.start, span.end): span.type for span in found}
