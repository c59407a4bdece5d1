"""Classification scores: accuracy, F1, Matthews' correlation, all from one confusion matrix.

MCC (Matthews 1975; for several classes Gorodkin 2004) is the correlation of true and predicted labels: 1 is perfect, 0 is
guessing or a constant prediction, whatever the class sizes. Macro F1 is the mean over the classes that occur, as true or
predicted label; a class that is never predicted, or never true, has a precision, or a recall, of 0. Micro F1, of all texts
together, is the accuracy, since a text has one label. For two classes the F1 of the second (1, true, yes, positive) is reported
too: MRPC's score.

Dims: C classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np


class ClassScore(NamedTuple):
    """The scores of one class."""

    label: str
    precision: float
    recall: float
    f1: float
    texts: int


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
        true_C, said_C, right_C = self.confusion_CC.sum(1), self.confusion_CC.sum(0), self.confusion_CC.diagonal()
        return [
            ClassScore(label, _ratio(right, said), _ratio(right, true), _ratio(2 * right, said + true), int(true))
            for label, true, said, right in zip(self.labels, true_C, said_C, right_C)
        ]

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
        width = max(5, *(len(label) for label in self.labels))
        return [
            f"accuracy   {self.accuracy:7.2%}  {self.right:,} of {self.texts:,} {self.unit}; "
            f"one answer for all: {self.constant:.2%}",
            f"macro F1   {self.macro_f1:7.2%}",
            *([f"F1         {self.positive.f1:7.2%}  of {self.positive.label!r}"] if self.positive else []),
            f"MCC        {self.mcc:7.4f}",
            f"nll        {self.nll:7.4f}  nats a {self.unit[:-1]}",
            f"{'':<{width}}  precision  recall      F1  {self.unit}",
            *(f"{c.label:<{width}}  {c.precision:9.2%} {c.recall:7.2%} {c.f1:7.2%} {c.texts:6,}" for c in self.classes()),
            *confusion_lines(self.labels, self.confusion_CC),
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return the scores as JSON values."""
        whole = {name: getattr(self, name) for name in ("texts", "accuracy", "constant", "macro_f1", "mcc", "nll")}
        whole |= {"micro_f1": self.accuracy}
        if self.positive:
            whole |= {"f1": self.positive.f1, "f1_of": self.positive.label}
        classes = [score._asdict() for score in self.classes()]
        return whole | {"classes": classes, "labels": list(self.labels), "confusion": self.confusion_CC.tolist()}


def _ratio(part: int, whole: int) -> float:
    return float(part / whole) if whole else 0.0


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
