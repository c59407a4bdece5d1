"""The task `classify`: texts, or pairs of texts, with a label each, and a body that reads with a head that tells."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

from regard.data.classes import Labels, described
from regard.data.labelled import Example, read_labelled
from regard.data.labels import LabelledBatches, LabelledTexts
from regard.errors import UserError
from regard.families.classifier import Classifier, classifier, count
from regard.families.gpt import GPTConfig
from regard.model.count import Part
from regard.objective.classification import ClassificationLoss
from regard.objective.loss import Objective
from regard.recipe import Recipe
from regard.tasks.classifier import LABELS, VOCABULARY, Labeller, Reader
from regard.tasks.opening import vocabulary_of
from regard.tasks.run import Say
from regard.tasks.start import Start, start_of, vocabulary
from regard.tasks.task import Task, Vocabulary
from regard.train.loop import Validation

SAMPLES = 6


@dataclass(frozen=True)
class Labelled:
    """Prepared texts with their labels (see `task.Prepared`)."""

    recipe: Recipe
    reader: Reader
    labels: Labels
    train: LabelledTexts
    valid: LabelledTexts
    valid_examples: list[Example]
    test: list[Example]
    start: Start | None  # none too where the run has weights of its own by now
    unit = "texts"

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
        return model

    def objective(self) -> ClassificationLoss:
        return ClassificationLoss(self.recipe.objective)

    def source(self, *, packed: bool) -> LabelledBatches:
        return LabelledBatches(self.train, self.recipe.train.tokens_per_batch, self.recipe.train.seed, packed)

    def validator(self, objective: Objective) -> Callable[[nn.Module], Validation]:
        """Loss and accuracy on the validation texts, and the first few of them with what the model says."""
        batches = LabelledBatches(self.valid, self.recipe.train.tokens_per_batch, seed=0).in_order()
        samples = self.valid_examples[:SAMPLES]

        @torch.no_grad()
        def validate(model: nn.Module) -> Validation:
            device = next(model.parameters()).device
            losses = [objective(model, batch.to(device)) for batch in batches]
            nll, right = (sum(loss.parts[part].item() for loss in losses) / len(self.valid) for part in ("nll", "right"))
            if not np.isfinite(nll):
                return Validation({"nll": nll}, [])  # weights that broke say nothing
            labeller = Labeller(model, self.reader, self.labels, self.recipe.decode)  # type: ignore[arg-type]
            said = labeller([e.text if e.second is None else (e.text, e.second) for e in samples])
            lines = [
                f"{' | '.join(e.texts)[:200]}\n  label      {e.label}\n  model      {label}" for e, label in zip(samples, said)
            ]
            return Validation({"nll": nll, "accuracy": right}, lines)

        return validate

    def example(self) -> tuple[Part, int]:
        """A text of average length."""
        length, language = round(self.train.ids.lengths.mean()), bool(self.recipe.objective.language)
        return count(self.recipe.model, self._vocabulary, length, len(self.labels), language), 1

    def amounts(self) -> dict[str, str]:
        what = "texts" if self.labels.texts == 1 else "pairs of texts"
        return {"train": f"{len(self.train):,} {what}, {len(self.labels)} labels", "valid": f"{len(self.valid):,} {what}"}

    def fingerprints(self) -> dict[str, str]:
        """With the labels' names: they are numbers in what was prepared."""
        names = hashlib.sha256("\0".join(self.labels.names).encode()).hexdigest()
        return {"train": f"{self.train.digest()}:{names}", "valid": self.valid.digest()}


def read_split(recipe: Recipe, split: str) -> list[Example]:
    limit = recipe.data.limit or None if split == "train" else None
    try:
        return read_labelled(getattr(recipe.data, split), recipe.data.columns, limit)
    except UserError as error:
        raise UserError(f"data.{split}: {error}") from None


def read_test(recipe: Recipe) -> list[Example]:
    return read_split(recipe, "test")


def prepare(recipe: Recipe, folder: Path | None, say: Say) -> Labelled:
    """Read and check the data, learn its labels, and take the vocabulary of the run, of the start, or of the training texts."""
    if recipe.objective.language and not isinstance(recipe.model, GPTConfig):
        raise UserError(
            f"objective.language={recipe.objective.language} is for model.family=gpt, which reads forwards; others see the words "
            "that they would predict. Set objective.language=0."
        )
    begun = folder is not None and (folder / VOCABULARY).exists()
    start = start_of(recipe.task.start) if recipe.task.start and not begun else None
    train, valid = read_split(recipe, "train"), read_split(recipe, "valid")
    test = read_split(recipe, "test") if recipe.data.test else []
    labels = Labels.of(train)
    for split, examples in (("train", train), ("valid", valid), ("test", test)):
        if examples:
            labels.numbers(examples, split)  # refuses a label that training does not have
            say(f"{split}: {len(examples):,} {'texts' if labels.texts == 1 else 'pairs of texts'}: {described(examples)[0]}")
    for line in described(train)[1:]:
        say(f"  {line}")
    if shared := _overlap(train, test):
        say(f"warning: {shared} of {len(test)} test texts are also in train, so the score will flatter.")
    reader = Reader.of(recipe, vocabulary(recipe, folder, start, lambda: [text for example in train for text in example.texts]))
    say(f"text: {recipe.text.tokenizer}, {len(reader.tokenizer):,} tokens in the vocabulary")
    encoded = {split: _encoded(reader, labels, split, found, say) for split, found in (("train", train), ("valid", valid))}
    if test:
        _encoded(reader, labels, "test", test, say)  # refuses texts that will not fit
    return Labelled(recipe, reader, labels, encoded["train"], encoded["valid"], valid, test, start)


def _encoded(reader: Reader, labels: Labels, split: str, examples: Sequence[Example], say: Say) -> LabelledTexts:
    places = [f"data.{split}: {example.place}" for example in examples]
    ids, seconds, cut = reader.encode([example.texts for example in examples], places)
    if cut:
        say(f"{split}: {cut:,} of {len(examples):,} texts are longer than data.maximum_tokens={reader.cut} and are cut")
    return LabelledTexts(ids, seconds, labels.numbers(examples, split))


def _overlap(train: Sequence[Example], test: Sequence[Example]) -> int:
    seen = {example.texts for example in train}
    return sum(example.texts in seen for example in test)


TASK = Task(prepare, read_test, Labeller.of)
