"""Answers as classes, and what the questions alone say about them: the baseline that a model that sees the image has to beat.

Without images, the best answer to a question is the one that it most often had in training; to a question that was not asked
there, the most frequent answer to questions that begin with the same two words (Antol et al. 2015, section 5.1, their per-type
prior).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from regard.core.errors import UserError
from regard.core.files import read_bounded, write_whole
from regard.data.batching.visual_questions import UNKNOWN
from regard.data.sources.visual_questions import VisualQuestion

FILE = "answers.json"
MOST_QUESTIONS = 20_000  # of which a run keeps the most frequent answer
BEGINNING = 2  # words


@dataclass(frozen=True)
class Answers:
    """The answers that a model knows, in the order of its scores."""

    names: tuple[str, ...]
    majority: str  # the most frequent answer of all
    by_question: dict[str, str]  # of each question that was asked in training, and of each beginning, the most frequent answer

    @classmethod
    def of(cls, questions: Sequence[VisualQuestion], most: int) -> Answers:
        """Collect the most frequent answers of the training set, and learn which answer each question mostly has."""
        counts = Counter(question.answer for question in questions)
        if len(counts) < 2:
            raise UserError(
                f"data.train has one answer only, {questions[0].answer!r}, so there is nothing to learn; check data.columns "
                "(image,question,answer)."
            )
        kept = sorted(sorted(counts), key=lambda name: -counts[name])[:most]
        beginnings = _most_frequent((_beginning(q.question), q.answer) for q in questions)
        asked = _most_frequent((_plain(q.question), q.answer) for q in questions)
        return cls(tuple(sorted(kept)), kept[0], beginnings | asked)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def meaning(self) -> str:
        """Return a fingerprint of the answers; if it changes, resuming is refused."""
        return "\0".join(self.names)

    def numbers(self, questions: Iterable[VisualQuestion]) -> np.ndarray:
        """Return the class of each question's answer; UNKNOWN for an answer that training does not have."""
        number = {name: n for n, name in enumerate(self.names)}
        return np.array([number.get(question.answer, UNKNOWN) for question in questions], np.int64)

    def without_image(self, question: str) -> str:
        """Return the answer that the words of a question suggest."""
        found = self.by_question.get(_plain(question)) or self.by_question.get(_beginning(question))
        return found or self.majority

    def save(self, path: Path) -> None:
        content = {"answers": self.names, "majority": self.majority, "by_question": self.by_question}
        write_whole(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")

    @classmethod
    def load(cls, path: Path) -> Answers:
        if not path.is_file():
            raise UserError(
                f"There are no answers at {path}. Copy the file back, or make it again by the same 'regard train' command."
            )
        try:
            found = json.loads(read_bounded(path, within=path.parent).decode())
            names, majority, table = tuple(found["answers"]), found["majority"], found["by_question"]
            texts = (*names, majority, *table, *table.values())
        except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
            names, texts = (), ()
        if len(names) < 2 or not all(isinstance(text, str) for text in texts):
            raise UserError(f"{path} is damaged; copy it again from where the run was made, or train another run.")
        return cls(names, majority, table)


def _plain(question: str) -> str:
    return " ".join(question.lower().split())


def _beginning(question: str) -> str:
    return " ".join(question.lower().split()[:BEGINNING])


def _most_frequent(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the most frequent answer of each text, of the texts that come most often."""
    counts = dict[str, Counter[str]]()
    for text, answer in pairs:
        counts.setdefault(text, Counter())[answer] += 1
    often = sorted(counts, key=lambda text: -counts[text].total())[:MOST_QUESTIONS]
    return {text: counts[text].most_common(1)[0][0] for text in often}
