"""Question answering scores: exact match and F1, as SQuAD computes them (Rajpurkar et al.

2016, section 6.1; 2018 for "no answer").

Both compare texts in lower case, without punctuation and the articles a, an, the. F1 is over the multiset of words in common.
Of several references the best counts. Where there is no answer, only an empty one is right. A reference that is empty after
normalisation counts only if there is no other (the rule of v2.0; v1.1 has none such).
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

ARTICLES = re.compile(r"\b(a|an|the)\b")
WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalised(answer: str) -> str:
    return " ".join(ARTICLES.sub(" ", answer.lower().translate(WITHOUT_PUNCTUATION)).split())


def exact(said: str, reference: str) -> float:
    return float(normalised(said) == normalised(reference))


def f1(said: str, reference: str) -> float:
    words, true = normalised(said).split(), normalised(reference).split()
    if not words or not true:
        return float(words == true)
    common = sum((Counter(words) & Counter(true)).values())
    return 2 * common / (len(words) + len(true))


class Mark(NamedTuple):
    """The scores of one answer, from 0 to 1."""

    exact: float
    f1: float


def mark(said: str, references: Sequence[str]) -> Mark:
    """Return the best score over all references, for each of the two; no references: there is no answer."""
    counting = [reference for reference in references if normalised(reference)] or [""]
    return Mark(max(exact(said, reference) for reference in counting), max(f1(said, reference) for reference in counting))


class Share(NamedTuple):
    """The mean scores of a group of questions."""

    questions: int
    exact: float
    f1: float

    @classmethod
    def of(cls, marks: Sequence[Mark]) -> Share:
        return cls(len(marks), *(float(np.mean([getattr(m, name) for m in marks])) if marks else 0.0 for name in ("exact", "f1")))


@dataclass(frozen=True)
class AnswerScores:
    """Mean scores of all questions, and of those with and without an answer."""

    all: Share
    answerable: Share
    unanswerable: Share
    silent: int  # questions that got no answer

    @classmethod
    def of(cls, said: Sequence[str], references: Sequence[Sequence[str]]) -> AnswerScores:
        marks = [mark(answer, true) for answer, true in zip(said, references)]
        there = [m for m, true in zip(marks, references) if true]
        nowhere = [m for m, true in zip(marks, references) if not true]
        return cls(Share.of(marks), Share.of(there), Share.of(nowhere), sum(not answer for answer in said))

    def lines(self) -> list[str]:
        """Return the lines that are printed; questions with and without an answer apart where there are both."""
        right = round(self.all.exact * self.all.questions)
        lines = [
            f"exact match  {self.all.exact:7.2%}  {right:,} of {self.all.questions:,} questions",
            f"F1           {self.all.f1:7.2%}",
        ]
        if self.unanswerable.questions:
            kinds = (("with answer", self.answerable), ("without", self.unanswerable))
            lines += [f"{name:<12} {kind.exact:7.2%}  F1 {kind.f1:.2%}, {kind.questions:,} questions" for name, kind in kinds]
            lines.append(f"no answer was given to {self.silent:,} of {self.all.questions:,} questions")
        return lines

    def as_dict(self) -> dict[str, Any]:
        """Return the scores as JSON values."""
        kinds = {"answerable": self.answerable, "unanswerable": self.unanswerable}
        apart = {name: kind._asdict() for name, kind in kinds.items()} if self.unanswerable.questions else {}
        return self.all._asdict() | {"silent": self.silent} | apart
