"""Scores of answers to questions about images: accuracy, in all and for each kind of question, beside answers without the
image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple


class KindScore(NamedTuple):
    """Right answers to one kind of question."""

    kind: str
    questions: int
    right: int
    without_image: int  # right answers of the question-only baseline

    @property
    def accuracy(self) -> float:
        return self.right / self.questions


@dataclass(frozen=True)
class VisualAnswerScores:
    """Accuracy of a model and of two baselines that do not see the image."""

    kinds: tuple[KindScore, ...]  # in the order in which they come first; one without a name where none is given
    majority: int  # right answers of one answer for all
    nll: float  # of the true answer, in nats a question whose answer the model knows
    unknown: int  # questions whose answer no training question had

    @classmethod
    def of(
        cls,
        true: Sequence[str],
        said: Sequence[str],
        guessed: Sequence[str],
        kinds: Sequence[str],
        majority: str,
        *,
        nll: float,
        unknown: int = 0,
    ) -> VisualAnswerScores:
        """Score what a model `said` and what was `guessed` without the image."""
        found = []
        for kind in dict.fromkeys(kinds):
            rows = [n for n, other in enumerate(kinds) if other == kind]
            right, without = (sum(answers[n] == true[n] for n in rows) for answers in (said, guessed))
            found.append(KindScore(kind, len(rows), right, without))
        return cls(tuple(found), sum(answer == majority for answer in true), nll, unknown)

    @property
    def questions(self) -> int:
        return sum(score.questions for score in self.kinds)

    @property
    def accuracy(self) -> float:
        return sum(score.right for score in self.kinds) / self.questions

    @property
    def without_image(self) -> float:
        return sum(score.without_image for score in self.kinds) / self.questions

    def lines(self) -> list[str]:
        """Return the lines that are printed."""
        right = sum(score.right for score in self.kinds)
        unknown = f"; {self.unknown:,} have answers that training does not" if self.unknown else ""
        told = [
            f"accuracy   {self.accuracy:7.2%}  {right:,} of {self.questions:,} questions{unknown}",
            f"without the image {self.without_image:.2%}, each question's most frequent answer in training; one answer for all: "
            f"{self.majority / self.questions:.2%}",
            f"nll        {self.nll:7.4f}  nats a question",
        ]
        if len(self.kinds) > 1:
            told += [
                f"  {score.kind or '(no kind)':<12} {score.accuracy:7.2%}  of {score.questions:,}; without the image "
                f"{score.without_image / score.questions:.2%}"
                for score in self.kinds
            ]
        return told

    def as_dict(self) -> dict[str, Any]:
        """Return the scores as JSON values."""
        return {
            "questions": self.questions,
            "accuracy": self.accuracy,
            "without_image": self.without_image,
            "majority": self.majority / self.questions,
            "nll": self.nll,
            "unknown_answers": self.unknown,
            "kinds": [
                {
                    "kind": score.kind,
                    "questions": score.questions,
                    "accuracy": score.accuracy,
                    "without_image": score.without_image / score.questions,
                }
                for score in self.kinds
            ],
        }
