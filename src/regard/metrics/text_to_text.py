"""Scores of outputs that are text: as text, as labels or as numbers.

text       ROUGE-1/2/L/Lsum, BLEU, chrF, exact match
labels     accuracy, macro F1; an output that is no label of the test set is wrong, and counted (Raffel et al. 2020, section 2.4)
numbers    Pearson's and Spearman's correlation; an output that is no number counts as the mean of the true ones, and is counted
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any, Literal

import numpy as np

from regard.metrics.bleu import Scores, corpus_scores
from regard.metrics.classification import ClassificationScores
from regard.metrics.correlation import SimilarityScores
from regard.metrics.rouge import Rouge, corpus_rouge

Answers = Literal["text", "labels", "numbers"]
METRIC: dict[str, str] = {"text": "rouge_l", "labels": "accuracy", "numbers": "pearson"}
"""The score that says which weights are best, by what outputs are."""


@dataclass(frozen=True)
class TextScores:
    rouge: Rouge
    others: Scores

    def lines(self) -> list[str]:
        return [*self.rouge.lines(), *self.others.lines()]

    def as_dict(self) -> dict[str, Any]:
        r = self.rouge
        rouge = {"rouge_1": r.rouge1, "rouge_2": r.rouge2, "rouge_l": r.rougeL, "rouge_lsum": r.rougeLsum}
        return {**rouge, "rouge_signature": r.signature, **asdict(self.others)}


@dataclass(frozen=True, kw_only=True)
class LabelScores:
    """Accuracy and F1 of label words."""

    texts: int
    accuracy: float
    macro_f1: float
    unknown: int  # outputs that are no label
    labels: tuple[str, ...]

    @classmethod
    def of(cls, outputs: Sequence[str], references: Sequence[Sequence[str]]) -> LabelScores:
        true = [texts[0].strip() for texts in references]
        labels = sorted(set(true))
        number = {label: n for n, label in enumerate(labels)}
        said = [number.get(output.strip(), len(labels)) for output in outputs]
        whole = ClassificationScores.of([*labels, "?"], np.array([number[label] for label in true]), np.array(said), 0.0)
        of_labels = [score.f1 for score in whole.classes()[:-1]]  # "?" is what models say, never what is true
        unknown = sum(n == len(labels) for n in said)
        macro = float(np.mean(of_labels))
        return cls(texts=len(true), accuracy=whole.accuracy, macro_f1=macro, unknown=unknown, labels=tuple(labels))

    def lines(self) -> list[str]:
        right = round(self.accuracy * self.texts)
        return [
            f"accuracy   {self.accuracy:7.2%}  {right:,} of {self.texts:,} texts; {self.unknown:,} outputs are no label",
            f"macro F1   {self.macro_f1:7.2%}  of {len(self.labels):,} labels",
        ]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"labels": list(self.labels)}


@dataclass(frozen=True)
class NumberScores:
    similarity: SimilarityScores
    unknown: int  # outputs that are no number

    @classmethod
    def of(cls, outputs: Sequence[str], references: Sequence[Sequence[str]]) -> NumberScores:
        true = np.array([float(texts[0]) for texts in references])
        said = [number(output) for output in outputs]
        filled = np.array([true.mean() if value is None else value for value in said])
        return cls(SimilarityScores.of(true, filled), sum(value is None for value in said))

    def lines(self) -> list[str]:
        return [*self.similarity.lines(), f"no number  {self.unknown:7,}  outputs"]

    def as_dict(self) -> dict[str, Any]:
        return self.similarity.as_dict() | {"unknown": self.unknown}


AnyScores = TextScores | LabelScores | NumberScores


def number(text: str) -> float | None:
    """Return the number that a text is, or None."""
    try:
        found = float(text.replace(" ", ""))  # a tokenizer may put spaces around a point
    except ValueError:
        return None
    return found if isfinite(found) else None


def score_texts(outputs: Sequence[str], references: Sequence[Sequence[str]], answers: Answers) -> AnyScores:
    """Return the scores of outputs against the texts that are right for each."""
    if answers == "labels":
        return LabelScores.of(outputs, references)
    if answers == "numbers":
        return NumberScores.of(outputs, references)
    return TextScores(corpus_rouge(outputs, references), corpus_scores(outputs, references))
