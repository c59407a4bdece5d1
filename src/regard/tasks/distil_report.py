"""A student beside its teacher: how much smaller and faster it is, and how much of the score it kept.

Speed is that of whole answers to the first test texts, numbering them included; the two take turns, so that a slow moment of the
machine hits both alike, and of several rounds the median counts.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import torch

from regard.data.labelled import Example
from regard.data.labels import LabelledTexts
from regard.evaluate.classification import ClassificationScores
from regard.tasks.answered import Answered
from regard.tasks.classifier import Labeller
from regard.tasks.distil import Teacher, parameters
from regard.tasks.reading import Parts, scores_of

ROUNDS, TEXTS, CHARACTERS = 7, 256, 40_000  # so many texts at most, unless they are as long as that together before
BYTES = 4  # of a weight in a file
CPU = torch.device("cpu")


class Side(NamedTuple):
    name: str
    parameters: int
    accuracy: float
    texts_per_second: dict[str, float]  # by device

    @property
    def megabytes(self) -> float:
        return self.parameters * BYTES / 1e6

    def line(self) -> str:
        speeds = ", ".join(f"{speed:,.0f} texts/s on {device}" for device, speed in self.texts_per_second.items())
        return f"{self.name}: {self.parameters:,} parameters, {self.megabytes:,.1f} MB, accuracy {self.accuracy:.2%}, {speeds}"


class Comparison(NamedTuple):
    teacher: Side
    student: Side
    faster: dict[str, float]  # by device: the median of rounds, not the ratio of medians

    @property
    def kept(self) -> float:
        """Of the teacher's accuracy."""
        return self.student.accuracy / self.teacher.accuracy if self.teacher.accuracy else float("nan")

    @property
    def size(self) -> float:
        return self.student.parameters / self.teacher.parameters

    def lines(self) -> list[str]:
        faster = ", ".join(f"{ratio:.2f} times as fast on {device}" for device, ratio in self.faster.items())
        kept = f"the student keeps {self.kept:.1%} of the accuracy with {self.size:.1%} of the parameters, {faster}"
        return [f"teacher  {self.teacher.line()}", f"student  {self.student.line()}", kept]

    def as_dict(self) -> dict[str, Any]:
        named = {"teacher": self.teacher, "student": self.student}
        sides = {name: {**side._asdict(), "megabytes": side.megabytes} for name, side in named.items()}
        return {**sides, "accuracy_kept": self.kept, "parameters_kept": self.size, "times_as_fast": self.faster}


@dataclass(frozen=True)
class Distilled:
    """A student's scores on a test set, and its teacher's beside them."""

    classified: Answered[ClassificationScores]
    comparison: Comparison

    @property
    def outputs(self) -> list[str]:
        return self.classified.outputs

    def lines(self) -> list[str]:
        return [*self.classified.lines(), *self.comparison.lines()]

    def as_dict(self) -> dict[str, Any]:
        return {**self.classified.as_dict(), "distillation": self.comparison.as_dict()}


def beside(
    teacher: Teacher, student: Labeller, found: Answered[ClassificationScores], test: Sequence[Example], device: torch.device
) -> Distilled:
    """Where the student was trained and, if that is a GPU, on the CPU as well."""
    run = student.run
    assert run is not None  # it has just been trained
    taught, texts = _as_its_student(teacher.opened(device), student), some(test)
    racing = {device.type: (taught, student)}
    if device != CPU:
        racing["cpu"] = _as_its_student(teacher.opened(CPU), student), Labeller.of(run, run.recipe, CPU)
    seconds = {where: alternated(both, texts) for where, both in racing.items()}
    speeds = [{where: len(texts) / median(took[n]) for where, took in seconds.items()} for n in range(2)]
    faster = {where: median(slow / fast for slow, fast in zip(*took)) for where, took in seconds.items()}
    sides = (
        Side(teacher.name, parameters(taught.model), taught.evaluate(test).scores.accuracy, speeds[0]),
        Side(str(run.folder), parameters(student.model), found.scores.accuracy, speeds[1]),
    )
    return Distilled(found, Comparison(*sides, faster))


def _as_its_student(teacher: Labeller, student: Labeller) -> Labeller:
    """Long texts are cut alike. Its mistakes are not listed: they were when it was trained, maybe on other texts."""
    return replace(teacher, reader=student.reader, run=None)


def some(test: Sequence[Example]) -> list[Parts]:
    """The first texts, enough to take a moment."""
    lengths = accumulate(sum(map(len, example.texts)) for example in test)
    kept = [example for example, length in zip(test[:TEXTS], lengths) if length <= CHARACTERS]
    return [example.texts for example in kept or test[:1]]


def alternated(both: Sequence[Labeller], texts: Sequence[Parts]) -> list[list[float]]:
    """Seconds of every round of each; the first round, in which kernels are chosen, is not counted."""
    found: list[list[float]] = [[] for _ in both]
    for number in range(1 + ROUNDS):
        for one, took in zip(both, found):
            began = time.perf_counter()
            ids, seconds, _ = one.reader.encode(texts, [""] * len(texts))
            scores_of(one.model, LabelledTexts(ids, seconds, np.zeros(len(texts), np.int64)), one.decode.batch_tokens)
            if number:
                took.append(time.perf_counter() - began)
    return found
