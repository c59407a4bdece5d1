"""A teacher and how a student begins: with the teacher's vocabulary, its labels and, if asked, every so-manieth of its layers.

A student beside its teacher: how much smaller and faster it is, and how much of the score it kept.

Speed is that of whole answers to the first test texts, numbering them included; the two take turns, so that a slow moment of the
machine hits both alike, and of several rounds the median counts.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import torch

from regard.core.errors import UserError, nearest
from regard.data.batching.labelled import LabelledTexts
from regard.data.labels import Labels
from regard.data.sources.labelled import Example
from regard.families.classifier import Classifier, classifier, count
from regard.families.flops import Part
from regard.metrics.classification import ClassificationScores
from regard.model.pruning import restored_weights
from regard.runs.folder import Run
from regard.runs.pretrained import recipe_of, start_of
from regard.runs.recipe import Recipe
from regard.tasks.classification.predict import LABELS, TextClassifier
from regard.tasks.classification.reader import EITHER, Parts, Reader, scores_of
from regard.tasks.predictor import EvaluationResult

BLOCK = re.compile(r"\.blocks\.(\d+)\.")  # in the name of a weight


@dataclass(frozen=True, eq=False)
class Teacher:
    name: str
    recipe: Recipe  # its own, or that of a public folder opened as it is
    model: Classifier
    reader: Reader
    labels: Labels

    @classmethod
    def of(cls, name: str) -> Teacher:
        start, run = start_of(name), _run(name)
        classifies = start.heads.classes > 1 if run is None else _classifies(run.recipe)
        if not classifies:
            raise UserError(
                f"objective.teacher={name} does not sort texts into classes, so it cannot teach how to; train a classifier from "
                f"it with 'regard train finetune-classify task.init_from={name} ...', and give that."
            )
        recipe = recipe_of(start) if run is None else run.recipe
        labels = Labels(start.labels, EITHER) if run is None else Labels.load(run.folder / LABELS)
        model = start.open(lambda: classifier(recipe.model, start.vocabulary, len(labels)), part="body", head="classes")
        return cls(name, recipe, model, Reader.of(recipe, start.tokenizer), labels)

    def opened(self, device: torch.device) -> TextClassifier:
        """Open the teacher as a predictor, in the form that computes fastest."""
        return TextClassifier.of(_run(self.name) or start_of(self.name), self.recipe, device)

    def digest(self) -> str:
        """Return a hash of the teacher's weights."""
        found = hashlib.sha256()
        for name, weights in sorted(self.model.state_dict().items()):
            found.update(name.encode())
            found.update(weights.cpu().contiguous().view(torch.uint8).numpy().tobytes())
        return found.hexdigest()

    def labels_of(self, examples: Sequence[Example]) -> Labels:
        """Return the teacher's labels, in its order; labels of the data that it lacks are refused."""
        texts = len(examples[0].texts)
        if self.labels.texts not in (EITHER, texts):
            kinds = ("", "single texts", "pairs of texts")
            raise UserError(
                f"objective.teacher={self.name} was trained on {kinds[self.labels.texts]}, and the data has {kinds[texts]}; "
                "choose with data.columns, or give another teacher."
            )
        for example in examples:
            if example.label not in self.labels.names:
                raise UserError(
                    f"{example.place}: the label {example.label!r} is not one that objective.teacher={self.name} knows"
                    f"{nearest(example.label, self.labels.names)}"
                )
        return replace(self.labels, texts=texts)

    def must_suit(self, recipe: Recipe, reader: Reader, longest: int, size: int) -> None:
        """A student of this recipe and of this size: the teacher reads the very batches that are made for it."""
        if reader.tokenizer.fingerprint() != self.reader.tokenizer.fingerprint() or reader.marks != self.reader.marks:
            raise UserError(
                f"objective.teacher={self.name} has another vocabulary than its student, or other marks around a text; leave "
                "task.init_from out, or start from a model of the teacher's own kind."
            )
        room, width = self.recipe.model.context, self.recipe.model.width
        if room is not None and longest > room:
            raise UserError(
                f"a text is {longest:,} tokens long, its marks counted, but objective.teacher={self.name} has {room:,} positions;"
                f" set data.maximum_tokens={room}."
            )
        if recipe.objective.cosine and recipe.model.width != width:
            raise UserError(
                f"objective.cosine={recipe.objective.cosine} compares vectors of one width, but the student's is "
                f"{recipe.model.width} and that of its teacher {width}; set objective.cosine=0."
            )
        if size > (own := parameters(self.model)):
            raise UserError(
                f"the student has {size:,} parameters, its teacher, {self.name}, {own:,}; a student is to be "
                "smaller. Lower model.width, model.feedforward or model.layers."
            )

    def begin(self, student: Classifier) -> None:
        """Copy the teacher's embeddings, some of its layers, and its head into a student."""
        chosen = layers(self.recipe.model.layers, student.body.config.layers)
        own = restored_weights(self.model.state_dict(), self.recipe.model)
        student.load_state_dict({name: own[_taken(name, chosen)] for name in student.state_dict()})

    def beside(self, student: Part, tokens: int) -> Part:
        """The student with its teacher's pass over a text, which is one: a model that learns is counted for three."""
        whole = count(self.recipe.model, len(self.model.body.embed.tokens.weight), tokens, len(self.labels))
        once = Part(
            "teacher", "its forward pass, a third of it", "tasks/classification/distillation.py", own_flops=whole.flops // 3
        )
        return replace(student, children=(*student.children, once))


def parameters(model: Classifier) -> int:
    return sum(weights.numel() for weights in model.parameters())


def _run(name: str) -> Run | None:
    """None for a public folder or a name on the hub."""
    return Run.open(name) if (Path(name) / "recipe.toml").is_file() else None


def _classifies(recipe: Recipe) -> bool:
    return recipe.task.name == "classification" and recipe.objective.name != "regression"


def layers(teacher: int, student: int) -> list[int]:
    """Choose the teacher's layers that a student begins with: evenly spaced, first and last among them.

    Sanh et al. 2019 take 0, 2, 4, 7, 9 and 11 of BERT's twelve. A student of one layer takes the first.
    """
    return [round(n * (teacher - 1) / max(1, student - 1)) for n in range(student)]


def _taken(name: str, chosen: Sequence[int]) -> str:
    """Return the teacher's name of a student's weight."""
    return BLOCK.sub(lambda found: f".blocks.{chosen[int(found[1])]}.", name)


ROUNDS, TEXTS, CHARACTERS = 7, 256, 40_000  # texts at most; fewer, if they reach this many characters
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
        """Return the share of the teacher's accuracy that the student reaches."""
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

    classified: EvaluationResult[ClassificationScores]
    comparison: Comparison

    @property
    def outputs(self) -> list[str]:
        return self.classified.outputs

    def lines(self) -> list[str]:
        return [*self.classified.lines(), *self.comparison.lines()]

    def as_dict(self) -> dict[str, Any]:
        return {**self.classified.as_dict(), "distillation": self.comparison.as_dict()}


def beside(
    teacher: Teacher,
    student: TextClassifier,
    found: EvaluationResult[ClassificationScores],
    test: Sequence[Example],
    device: torch.device,
) -> Distilled:
    """Compare a student with its teacher on the device of training and, if that is a GPU, on the CPU as well."""
    run = student.run
    assert run is not None  # it has just been trained
    taught, texts = _as_its_student(teacher.opened(device), student), some(test)
    racing = {device.type: (taught, student)}
    if device != CPU:
        racing["cpu"] = _as_its_student(teacher.opened(CPU), student), TextClassifier.of(run, run.recipe, CPU)
    seconds = {where: alternated(both, texts) for where, both in racing.items()}
    speeds = [{where: len(texts) / median(took[n]) for where, took in seconds.items()} for n in range(2)]
    faster = {where: median(slow / fast for slow, fast in zip(*took)) for where, took in seconds.items()}
    sides = (
        Side(teacher.name, parameters(taught.model), taught.evaluate(test).scores.accuracy, speeds[0]),
        Side(str(run.folder), parameters(student.model), found.scores.accuracy, speeds[1]),
    )
    return Distilled(found, Comparison(*sides, faster))


def _as_its_student(teacher: TextClassifier, student: TextClassifier) -> TextClassifier:
    """Long texts are cut alike. Its mistakes are not listed: they were when it was trained, maybe on other texts."""
    return replace(teacher, reader=student.reader, run=None)


def some(test: Sequence[Example]) -> list[Parts]:
    """The first texts, enough to take a moment."""
    lengths = accumulate(sum(map(len, example.texts)) for example in test)
    kept = [example for example, length in zip(test[:TEXTS], lengths) if length <= CHARACTERS]
    return [example.texts for example in kept or test[:1]]


def alternated(both: Sequence[TextClassifier], texts: Sequence[Parts]) -> list[list[float]]:
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
