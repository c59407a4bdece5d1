"""Prepare images with a label each for a model that classifies them, alone or by a teacher's help."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from regard.core.errors import UserError
from regard.data.augment import Augment
from regard.data.batching.images import ImageBatches, LabelledImages
from regard.data.config import describe_valid_fraction, split_rows
from regard.data.labels import Labels, describe_labels
from regard.data.sources.image_sets import ImageSet, read_image_set
from regard.data.sources.labelled import Example
from regard.families import build_model, count_model
from regard.families.base import Heads
from regard.families.flops import Part
from regard.metrics.classification import ClassificationScores
from regard.objectives.base import Objective
from regard.objectives.image_classification import ImageClassificationLoss, ImageDistillationConfig
from regard.runs.folder import Run, Say
from regard.runs.prepared import Measured, Prepared, losses_of, mean_losses, read_split, warn_of_overlap
from regard.runs.pretrained import InitCheckpoint, start_of
from regard.runs.protocols import Vocabulary
from regard.runs.recipe import Recipe
from regard.tasks.classification.predict import LABELS
from regard.tasks.image_classification.predict import ImageClassifier, form_of
from regard.tasks.image_classification.teacher import Teacher
from regard.training.loop import Validation

EXPECTED = "a folder of images by class, an archive of one, .npz, .idx, a table of paths and labels, or hf:NAME"
SAMPLES = 6
TOKENS = 64  # of an image, where a family has none: train.tokens_per_batch is then 64 times the images of a batch
HEADS = ("classes", "distilled")


def read_images_of(recipe: Recipe, split: str) -> ImageSet:
    data, form = recipe.data, form_of(recipe)
    return read_split(
        recipe,
        split,
        lambda where, limit: read_image_set(where, form, columns=data.columns, images=data.images, limit=limit),
        EXPECTED,
    )


def read_test(recipe: Recipe) -> ImageSet:
    return read_images_of(recipe, "test")


def read_to_learn(recipe: Recipe) -> tuple[ImageSet, ImageSet]:
    """Read training and validation; of a share that is held out, images that look the same are on one side."""
    train = read_images_of(recipe, "train")
    if recipe.data.valid or not recipe.data.valid_fraction:
        return train, read_images_of(recipe, "valid")
    rows = split_rows(train.looks(), recipe.data.valid_fraction, "images")
    return train.take(rows.kept), train.take(rows.held)


def as_examples(found: ImageSet) -> list[Example]:
    """Return each image as an example that functions of labels take: a key of its pixels, its label, its place."""
    return [Example(look.hex(), None, label, name) for look, label, name in zip(found.looks(), found.labels or (), found.names)]


def prepare(recipe: Recipe, folder: Path | None, say: Say) -> Images:
    """Read and check the data, learn its classes, and open the teacher. Nothing is written."""
    if (reads := getattr(recipe.model, "reads", "image")) != "image":
        raise UserError(f"model.reads={reads} reads more than an image, or none; for this task set model.reads=image.")
    start = _start(recipe, folder)
    taught = isinstance(recipe.objective, ImageDistillationConfig)
    teacher = Teacher.of(recipe.objective.teacher) if taught else None
    if teacher is not None:
        teacher.must_suit(recipe)
    train, valid = read_to_learn(recipe)
    test = read_test(recipe) if recipe.data.test else None
    splits = {"train": train, "valid": valid} | ({"test": test} if test is not None else {})
    examples = {split: as_examples(found) for split, found in splits.items()}
    labels = Labels.of(examples["train"], "images")
    if train.classes and set(labels.names) <= set(train.classes):
        labels = Labels(train.classes, 1)  # in the order of the file, and those that this part of it has not
    labels = labels if teacher is None else teacher.labels_of(labels)
    for line in describe_valid_fraction(recipe.data):
        say(line)
    numbers = {split: labels.numbers(found, split) for split, found in examples.items()}
    for split, found in splits.items():
        told = describe_labels(examples[split], what="images")
        say(f"{split}: {len(found):,} images: {told[0]}")
        for line in (*found.notes, *(told[1:] if split == "train" else ())):
            say(f"  {line}")
    if test is not None:
        warn_of_overlap((e.key for e in examples["train"]), [e.key for e in examples["test"]], "images", say)
    return Images(
        recipe=recipe,
        start=start,
        labels=labels,
        train=LabelledImages.of(train.pixels_NYXC, numbers["train"]),
        valid=LabelledImages.of(valid.pixels_NYXC, numbers["valid"]),
        valid_set=valid.take(np.arange(min(SAMPLES, len(valid)))),
        test=test,
        teacher=teacher,
    )


def _start(recipe: Recipe, folder: Path | None) -> InitCheckpoint | None:
    """Return the checkpoint of `task.init_from`; None where there is none, or where the run has begun."""
    begun = folder is not None and (folder / LABELS).exists()
    return start_of(recipe.task.init_from) if recipe.task.init_from and not begun else None


def parts(run: Run, recipe: Recipe, tokens: int) -> Part:
    """Count a run's model with a score for each of its labels."""
    classes = len(Labels.load(run.folder / LABELS))
    return count_model(recipe.model, tokens, vocabulary=0, heads=Heads(words=False, classes=classes))


def images_of_a_batch(recipe: Recipe) -> int:
    """Return the images of a batch: `train.examples_per_batch`, or as many as have `train.tokens_per_batch` patches."""
    tokens = recipe.model.context or TOKENS
    return int(recipe.train.examples_per_batch or max(1, recipe.train.tokens_per_batch // tokens))


@dataclass(frozen=True, kw_only=True)
class Images(Prepared):
    """Images with their labels."""

    labels: Labels
    train: LabelledImages
    valid: LabelledImages
    valid_set: ImageSet  # the first few, for samples
    test: ImageSet | None = None
    teacher: Teacher | None = None
    unit = "images"
    examples = "images"
    metric = "accuracy"

    @property
    def vocabularies(self) -> Mapping[str, Vocabulary]:
        return {LABELS: self.labels}

    def build(self, seed: int) -> nn.Module:
        model: nn.Module = build_model(self.recipe.model, seed, vocabulary=0, heads=Heads(words=False, classes=len(self.labels)))
        return model

    def begin(self, model: nn.Module) -> None:
        """Take the weights of the start; heads for other classes stay as they were drawn."""
        if self.start is None:
            return
        weights = self.start.weights
        if not self.start.labels or set(self.start.labels) != set(self.labels.names):
            weights = {name: tensor for name, tensor in weights.items() if name.partition(".")[0] not in HEADS}
        elif self.start.labels != self.labels.names:
            order = torch.tensor([self.start.labels.index(name) for name in self.labels.names])
            weights = {n: tensor[order] if n.partition(".")[0] in HEADS else tensor for n, tensor in weights.items()}
        replace(self.start, weights=weights).fill(model)

    def objective(self) -> Objective:
        config = self.recipe.objective
        augment = Augment(self.recipe.data, len(self.labels), config.smoothing)
        return ImageClassificationLoss(config, augment, self.teacher.model if self.teacher else None)

    def source(self, *, packed: bool) -> ImageBatches:
        return ImageBatches(self.train, images_of_a_batch(self.recipe), self.recipe.train.seed, self.recipe.data.repeats)

    def valid_batches(self) -> list[Any]:
        return ImageBatches(self.valid, images_of_a_batch(self.recipe), seed=0).in_order()

    def measure(self, model: nn.Module, objective: Objective, batches: Iterable[Any]) -> Measured:
        losses, true = list(losses_of(model, objective, batches)), np.concatenate([b.labels_B.numpy() for b in batches])
        said = [loss.predicted_N for loss in losses if loss.predicted_N is not None]
        return Measured(mean_losses(losses), (true, torch.cat(said).cpu().numpy()))

    def report(self, model: nn.Module, measured: Measured) -> Validation:
        """Report accuracy and MCC of the validation images, and the answers to the first few."""
        found = ImageClassifier(model, self.labels, form_of(self.recipe), self.recipe.decode).classify(self.valid_set)
        shown = zip(self.valid_set.names, self.valid_set.labels or (), found)
        lines = [f"{name}\n  label      {label}\n  model      {answer.label}" for name, label, answer in shown]
        true, said = measured.found
        scores = ClassificationScores.of(self.labels.names, true, said, 0.0, "images")
        return Validation({**measured.means, "mcc": scores.mcc}, lines)

    def example(self) -> tuple[Part, int]:
        """Count the model for one image; a teacher's pass over it is one, and a model that learns is counted for three."""
        heads = Heads(words=False, classes=len(self.labels))
        whole = count_model(self.recipe.model, 1, vocabulary=0, heads=heads)
        return (whole if self.teacher is None else self.teacher.beside(whole)), 1

    def amounts(self) -> dict[str, str]:
        return {"train": f"{len(self.train):,} images, {self.labels.summary}", "valid": f"{len(self.valid):,} images"}

    def fingerprints(self) -> dict[str, str]:
        """Return hashes of the data and of the labels' meaning, which are numbers in the data."""
        means = hashlib.sha256(self.labels.meaning.encode()).hexdigest()
        taught = f":{self.teacher.digest()}" if self.teacher else ""
        return {"train": f"{self.train.digest()}:{means}{taught}", "valid": self.valid.digest()}
