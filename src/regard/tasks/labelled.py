"""Labelled texts, prepared: what a training of `classify` needs to know (see `task.Prepared`)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from regard.data.classes import Labels, described
from regard.data.labelled import Example
from regard.data.labels import UNLABELLED, LabelledBatches, LabelledTexts
from regard.data.scale import Scale, described_numbers
from regard.evaluate.classification import ClassificationScores
from regard.evaluate.similarity import correlation
from regard.families.classifier import Classifier, classifier, count
from regard.model.count import Part
from regard.objective.classification import ClassificationLoss
from regard.objective.distillation import DistillationLoss
from regard.objective.loss import Objective
from regard.objective.regression import RegressionLoss
from regard.recipe import Recipe
from regard.tasks.classifier import LABELS, VOCABULARY, Labeller
from regard.tasks.distil import Teacher
from regard.tasks.opening import vocabulary_of
from regard.tasks.rater import Rater
from regard.tasks.reading import Reader
from regard.tasks.start import Start, frozen
from regard.tasks.task import Vocabulary
from regard.train.loop import Validation

SAMPLES = 6


class Kind(NamedTuple):
    """What texts are told to be, by the objective's name."""

    labels: type[Labels] | type[Scale]
    described: Callable[[Sequence[Example]], list[str]]
    answers: type[Labeller] | type[Rater]
    metric: str  # of validation, that says which weights are best


# By MCC and not by accuracy: where one label is frequent, the most accurate weights may be those that answer it for every text.
IN_CLASSES = Kind(Labels, described, Labeller, "mcc")
IN_NUMBERS = Kind(Scale, described_numbers, Rater, "pearson")
KINDS = {"classification": IN_CLASSES, "distillation": IN_CLASSES, "regression": IN_NUMBERS}


@dataclass(frozen=True)
class Labelled:
    """Texts with their labels, of a student without them too."""

    recipe: Recipe
    reader: Reader
    labels: Labels | Scale
    train: LabelledTexts
    valid: LabelledTexts
    valid_examples: Sequence[Example]
    test: Sequence[Example]
    start: Start | None  # none too where the run has weights of its own by now
    teacher: Teacher | None = None
    unit = "texts"

    @property
    def kind(self) -> Kind:
        return KINDS[self.recipe.objective.name]

    @property
    def metric(self) -> str:
        return self.kind.metric

    @property
    def vocabularies(self) -> Mapping[str, Vocabulary]:
        return {VOCABULARY: self.reader.tokenizer, LABELS: self.labels}

    @property
    def _vocabulary(self) -> int:
        return self.start.vocabulary if self.start else vocabulary_of(self.recipe, self.reader.tokenizer)

    def model(self) -> Classifier:
        model = classifier(self.recipe.model, self._vocabulary, len(self.labels), self.recipe.train.seed)
        if self.start is not None:
            self.start.fill(model.body)
        elif self.teacher is not None and self.recipe.objective.inherit:
            self.teacher.begin(model)
        return frozen(model, self.recipe.task)

    def objective(self) -> ClassificationLoss | RegressionLoss | DistillationLoss:
        if self.teacher is not None:
            return DistillationLoss(self.recipe.objective, self.teacher.model)
        if isinstance(self.labels, Scale):
            return RegressionLoss(self.labels.deviation)
        weights = self.labels.weights(self.train.labels) if self.recipe.objective.balance == "weights" else None
        return ClassificationLoss(self.recipe.objective, None if weights is None else torch.from_numpy(weights).float())

    def source(self, *, packed: bool) -> LabelledBatches:
        return LabelledBatches(self.train, self.recipe.train.tokens_per_batch, self.recipe.train.seed, packed)

    def validator(self, objective: Objective) -> Callable[[nn.Module], Validation]:
        """Loss, accuracy and MCC of the validation texts, or how far off and Pearson; the first few with what the model says."""
        batches = LabelledBatches(self.valid, self.recipe.train.tokens_per_batch, seed=0).in_order()
        true = np.concatenate([batch.labels_N.numpy() for batch in batches])
        samples = self.valid_examples[:SAMPLES]

        @torch.no_grad()
        def validate(model: nn.Module) -> Validation:
            device = next(model.parameters()).device
            losses = [objective(model, batch.to(device)) for batch in batches]
            means = {part: sum(loss.parts[part].item() for loss in losses) / len(self.valid) for part in losses[0].parts}
            if not np.isfinite(means["nll"]):
                return Validation({"nll": means["nll"]}, [])  # weights that broke say nothing
            means |= self._beyond_means(
                true, torch.cat([loss.said_N for loss in losses if loss.said_N is not None]).cpu().numpy()
            )
            answers = self.kind.answers(model, self.reader, self.labels, self.recipe.decode)  # type: ignore[arg-type]
            said = answers([e.text if e.second is None else (e.text, e.second) for e in samples])
            told = [label if isinstance(label, str) else f"{label:.2f}" for label in said]
            texts = [" | ".join(e.texts)[:200] for e in samples]
            lines = [f"{t}\n  label      {e.label}\n  model      {label}" for t, e, label in zip(texts, samples, told)]
            return Validation(means, lines)

        return validate

    def _beyond_means(self, true: np.ndarray, said: np.ndarray) -> dict[str, float]:
        """Figures of all validation texts together, which are no means over them."""
        if isinstance(self.labels, Scale):
            return {"pearson": correlation(true, said)}
        return {"mcc": ClassificationScores.of(self.labels.names, true, said, nll=0.0).mcc}

    def example(self) -> tuple[Part, int]:
        """A text of average length."""
        length, language = round(self.train.ids.lengths.mean()), bool(self.recipe.objective.language)
        whole = count(self.recipe.model, self._vocabulary, length, len(self.labels), language)
        return (whole if self.teacher is None else self.teacher.beside(whole, length)), 1

    def amounts(self) -> dict[str, str]:
        what, bare = called(self.labels), int((self.train.labels == UNLABELLED).sum()) if self.teacher else 0
        told = f"{self.labels.told}{f', {bare:,} of them without any' if bare else ''}"
        return {"train": f"{len(self.train):,} {what}, {told}", "valid": f"{len(self.valid):,} {what}"}

    def fingerprints(self) -> dict[str, str]:
        """With what the labels mean: they are numbers in what was prepared."""
        means = hashlib.sha256(self.labels.meaning.encode()).hexdigest()
        taught = f":{self.teacher.digest()}" if self.teacher else ""
        return {"train": f"{self.train.digest()}:{means}{taught}", "valid": self.valid.digest()}


def called(labels: Labels | Scale) -> str:
    return "texts" if labels.texts == 1 else "pairs of texts"
