"""Prepare texts, or pairs of texts, with a label each, for a body with a classification head.

With objective.name=regression labels are numbers, and so are the outputs. With objective.name=distillation a trained
classifier teaches a smaller one, with labels or without.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import nn

from regard.core.errors import UserError
from regard.data.batching.labelled import UNLABELLED, LabelledBatches, LabelledTexts
from regard.data.config import describe_valid_fraction, split_rows
from regard.data.labels import Labels, Scale, describe_labels, describe_numbers
from regard.data.lra import Sequences
from regard.data.sources.columns import join_names
from regard.data.sources.labelled import Example, choose_columns, describe_columns, lacks_labels, read_labelled, read_unlabelled
from regard.families import family_of
from regard.families.classifier import Classifier, classifier, count
from regard.families.flops import Part
from regard.metrics.classification import ClassificationScores
from regard.metrics.correlation import correlation
from regard.objectives.base import Objective
from regard.objectives.classification import ClassificationLoss, RegressionLoss
from regard.objectives.distillation import DistillationConfig, DistillationLoss
from regard.runs.folder import Run, Say
from regard.runs.prepared import Measured, PreparedText, losses_of, mean_losses, read_split, train_and_valid, warn_of_overlap
from regard.runs.pretrained import VOCABULARY, has_vocabulary, start_to_train, vocabulary
from regard.runs.protocols import Result, Vocabulary
from regard.runs.recipe import Recipe
from regard.tasks.classification.distillation import Teacher, beside
from regard.tasks.classification.predict import LABELS, Regressor, TextClassifier
from regard.tasks.classification.reader import Reader
from regard.tasks.generated_text import shown
from regard.tasks.predictor import EvaluationResult
from regard.training.loop import Validation

SHOWN = 3  # rows, as they are read


def read_labelled_split(recipe: Recipe, split: str) -> Sequence[Example]:
    expected = "a .tsv, .csv or .jsonl file with texts and labels, or hf:NAME"
    return read_split(recipe, split, lambda where, limit: read_labelled(where, recipe.data.columns, limit), expected)


def read_test(recipe: Recipe) -> Sequence[Example]:
    if lacks_labels(recipe.data.test, recipe.data.columns):
        raise UserError(f"data.test: {_unscored(recipe)}")
    return read_labelled_split(recipe, "test")


def _unscored(recipe: Recipe) -> str:
    where = " and ".join(recipe.data.test)
    return f"{where} has no labels, so there is nothing to score; 'regard predict RUN --input {recipe.data.test[0]}' answers it."


def read_to_learn(recipe: Recipe) -> tuple[Sequence[Example], Sequence[Example]]:
    """Training and validation; where there is nothing to validate with, a share of training, picked by a seed of its own."""
    data = recipe.data
    train = read_labelled_split(recipe, "train") if data.train or not data.unlabelled else []
    if isinstance(train, Sequences) and data.valid_fraction and not data.valid:
        rows = split_rows(range(len(train)), data.valid_fraction, "texts")
        return train.take(rows.kept), train.take(rows.held)
    return train_and_valid(recipe, train, read_labelled_split, lambda example: example.key, "texts")


def words_of(examples: Sequence[Example]) -> list[str]:
    """Return the texts that a vocabulary is learned from; of symbols, one of each."""
    if isinstance(examples, Sequences):
        return [" ".join(examples.symbols)]
    return [text for example in examples for text in example.texts]


def prepare(recipe: Recipe, folder: Path | None, say: Say) -> Labelled:
    """Read and check the data, learn its labels, and take the vocabulary of the run, of the start, or of the training texts.

    Labels and vocabulary of a student are its teacher's.
    """
    _must_make_sense(recipe)
    start = start_to_train(recipe, folder)
    teacher = Teacher.of(recipe.objective.teacher) if isinstance(recipe.objective, DistillationConfig) else None
    train, valid = read_to_learn(recipe)
    unscored = lacks_labels(recipe.data.test, recipe.data.columns)
    test = read_labelled_split(recipe, "test") if recipe.data.test and not unscored else []
    if unscored:
        say(f"test: {_unscored(recipe)}")
    labels = teacher.labels_of(train or valid) if teacher else KINDS[recipe.objective.name].labels.of(train)
    for line in describe_valid_fraction(recipe.data):
        say(line)
    _tell(KINDS[recipe.objective.name], labels, {"train": train, "valid": valid, "test": test}, say)
    _show(recipe, train, say)
    if teacher and not start and not has_vocabulary(folder):
        tokenizer = teacher.reader.tokenizer
    else:
        tokenizer = vocabulary(recipe, folder, start, lambda: words_of(train))
    reader = Reader.of(recipe, tokenizer)
    say(f"text: {recipe.text.tokenizer}, {len(tokenizer):,} tokens in the vocabulary")
    encoded = {split: _encoded(reader, labels, split, found, say) for split, found in (("train", train), ("valid", valid))}
    if test:
        _encoded(reader, labels, "test", test, say)  # refuses texts that will not fit
    if recipe.data.unlabelled:
        encoded["train"] += _unlabelled(recipe, reader, labels, say)
    found = Labelled(
        recipe=recipe,
        tokenizer=tokenizer,
        start=start,
        reader=reader,
        labels=labels,
        train=encoded["train"],
        valid=encoded["valid"],
        valid_examples=valid,
        test=test,
        teacher=teacher,
    )
    if teacher:
        longest = max(int(part.ids.lengths.max()) for part in (found.train, found.valid))
        teacher.must_suit(recipe, reader, longest, found.example()[0].parameters)
    return found


def _must_make_sense(recipe: Recipe) -> None:
    if recipe.objective.language and not family_of(recipe.model).has("causal_lm"):
        raise UserError(
            f"objective.language={recipe.objective.language} is for model.family=gpt, which reads forwards; others see the words "
            "that they would predict. Set objective.language=0."
        )
    taught = isinstance(recipe.objective, DistillationConfig)
    if recipe.data.unlabelled and not taught:
        raise UserError(
            "data.unlabelled is for a student, who asks a teacher what they are; take recipe distil, or leave it out."
        )
    if taught and recipe.task.init_from and recipe.objective.inherit:
        raise UserError(
            f"task.init_from={recipe.task.init_from} and objective.inherit=true both say what the student begins with; leave "
            "task.init_from out, or set objective.inherit=false."
        )


def _tell(kind: Kind, labels: Labels | Scale, splits: Mapping[str, Sequence[Example]], say: Say) -> None:
    """Report what the data is like; a label that training does not have is refused."""
    for split, examples in splits.items():
        if examples:
            labels.numbers(examples, split)
            say(f"{split}: {len(examples):,} {called(labels)}: {kind.describe(examples)[0]}")
    for line in kind.describe(splits["train"])[1:] if splits["train"] else ():
        say(f"  {line}")
    warn_of_overlap((example.key for example in splits["train"]), [example.key for example in splits["test"]], "texts", say)


def _show(recipe: Recipe, train: Sequence[Example], say: Say) -> None:
    """Report what was read of a person's own files: the columns, and the first few rows."""
    data = recipe.data
    for line in describe_columns(data.train + data.valid, data.columns):
        say(line)
    if isinstance(train, Sequences) or not train or all(entry.startswith("builtin:") for entry in data.train):
        return
    if train[0].second is not None:
        columns = next(
            (found.called for entry in data.train if (found := choose_columns(entry, data.columns))), ("first", "second", "label")
        )
        say(
            f"each example is a PAIR of texts, {join_names(columns[:-1])} (recipe finetune-pair is for these); for one text, "
            "name two columns: data.columns=TEXT,LABEL"
        )
    for example in train[:SHOWN]:
        texts = " and ".join(repr(shown(text)) for text in example.shown)
        say(f"  {texts} is {example.label!r}")


def _unlabelled(recipe: Recipe, reader: Reader, labels: Labels | Scale, say: Say) -> LabelledTexts:
    try:
        found = read_unlabelled(recipe.data.unlabelled, recipe.data.columns, labels.texts)
    except UserError as error:
        raise UserError(f"data.unlabelled: {error}") from None
    say(f"unlabelled: {len(found):,} {called(labels)}")
    return _encoded(reader, None, "unlabelled", found, say)


def _encoded(reader: Reader, labels: Labels | Scale | None, split: str, examples: Sequence[Example], say: Say) -> LabelledTexts:
    ids, seconds, cut = reader.encode_examples(examples, split)
    if cut:
        say(f"{split}: {cut:,} of {len(examples):,} texts are longer than data.maximum_tokens={reader.cut} and are cut")
    numbers = np.full(len(examples), UNLABELLED) if labels is None else labels.numbers(examples, split)
    return LabelledTexts(ids, seconds, numbers, reader.marks.apart)


def compare(prepared: Labelled, answers: TextClassifier | Regressor, result: Result, device: torch.device) -> Result:
    """A student with its teacher."""
    if prepared.teacher is None or not isinstance(answers, TextClassifier) or not isinstance(result, EvaluationResult):
        return result
    return beside(prepared.teacher, answers, result, prepared.test, device)


def parts(run: Run, recipe: Recipe, tokens: int) -> Part:
    """Count a run's model with a score for each of its labels, and without a head for words."""
    labels = KINDS[recipe.objective.name].labels.load(run.folder / LABELS)
    (vocabulary,) = run.vocabulary_sizes()
    return count(recipe.model, vocabulary, tokens, len(labels), bool(recipe.objective.language))


SAMPLES = 6


class Kind(NamedTuple):
    """Parts that depend on the objective: labels or numbers, and the metric."""

    labels: type[Labels] | type[Scale]
    describe: Callable[[Sequence[Example]], list[str]]
    answers: type[TextClassifier] | type[Regressor]
    metric: str  # of validation, that says which weights are best


# By MCC and not by accuracy: where one label is frequent, the most accurate weights may be those that answer it for every text.
IN_CLASSES = Kind(Labels, describe_labels, TextClassifier, "mcc")
IN_NUMBERS = Kind(Scale, describe_numbers, Regressor, "pearson")
KINDS = {"classification": IN_CLASSES, "distillation": IN_CLASSES, "regression": IN_NUMBERS}


@dataclass(frozen=True, kw_only=True)
class Labelled(PreparedText):
    """Texts with their labels; a student's training texts may have none."""

    reader: Reader
    labels: Labels | Scale
    train: LabelledTexts
    valid: LabelledTexts
    valid_examples: Sequence[Example]
    test: Sequence[Example]
    teacher: Teacher | None = None
    unit = "texts"

    @property
    def kind(self) -> Kind:
        return KINDS[self.recipe.objective.name]

    @property
    def metric(self) -> str:  # type: ignore[override]
        return self.kind.metric

    @property
    def vocabularies(self) -> Mapping[str, Vocabulary]:
        return {VOCABULARY: self.tokenizer, LABELS: self.labels}

    def build(self, seed: int) -> Classifier:
        return classifier(self.recipe.model, self.vocabulary_size, len(self.labels), seed)

    def begin(self, model: nn.Module) -> None:
        if self.start is not None:
            self.start.fill(model.get_submodule("body"))
        elif self.teacher is not None and self.recipe.objective.inherit:
            self.teacher.begin(cast(Classifier, model))

    def objective(self) -> Objective:
        if self.teacher is not None:
            return DistillationLoss(self.recipe.objective, self.teacher.model)
        if isinstance(self.labels, Scale):
            return RegressionLoss(self.labels.deviation)
        weights = self.labels.weights(self.train.labels) if self.recipe.objective.balance == "weights" else None
        return ClassificationLoss(self.recipe.objective, None if weights is None else torch.from_numpy(weights).float())

    def source(self, *, packed: bool) -> LabelledBatches:
        return LabelledBatches(self.train, self.recipe.train.tokens_per_batch, self.recipe.train.seed, packed)

    def valid_batches(self) -> list[Any]:
        return LabelledBatches(self.valid, self.recipe.train.tokens_per_batch, seed=0).in_order()

    def measure(self, model: nn.Module, objective: Objective, batches: Iterable[Any]) -> Measured:
        losses, true = list(losses_of(model, objective, batches)), np.concatenate([b.labels_N.numpy() for b in batches])
        said = [loss.predicted_N for loss in losses if loss.predicted_N is not None]
        return Measured(mean_losses(losses), (true, torch.cat(said).cpu().numpy()))

    def report(self, model: nn.Module, measured: Measured) -> Validation:
        """Report accuracy and MCC of the validation texts, or how far off and Pearson; and the answers to the first few."""
        samples = self.valid_examples[:SAMPLES]
        answers = self.kind.answers(model, self.reader, self.labels, self.recipe.decode)  # type: ignore[arg-type]
        said = answers([e.text if e.second is None else (e.text, e.second) for e in samples])
        told = [label if isinstance(label, str) else f"{label:.2f}" for label in said]
        texts = [" | ".join(e.texts)[:200] for e in samples]
        lines = [f"{t}\n  label      {e.label}\n  model      {label}" for t, e, label in zip(texts, samples, told)]
        return Validation({**measured.means, **self._beyond_means(*measured.found)}, lines)

    def _beyond_means(self, true: np.ndarray, said: np.ndarray) -> dict[str, float]:
        """Figures of all validation texts together, which are no means over them."""
        if isinstance(self.labels, Scale):
            return {"pearson": correlation(true, said)}
        return {"mcc": ClassificationScores.of(self.labels.names, true, said, nll=0.0).mcc}

    def example(self) -> tuple[Part, int]:
        """A text of average length."""
        length, language = round(self.train.ids.lengths.mean()), bool(self.recipe.objective.language)
        whole = count(self.recipe.model, self.vocabulary_size, length, len(self.labels), language)
        return (whole if self.teacher is None else self.teacher.beside(whole, length)), 1

    def amounts(self) -> dict[str, str]:
        what, bare = called(self.labels), int((self.train.labels == UNLABELLED).sum()) if self.teacher else 0
        told = f"{self.labels.summary}{f', {bare:,} of them without any' if bare else ''}"
        return {"train": f"{len(self.train):,} {what}, {told}", "valid": f"{len(self.valid):,} {what}"}

    def fingerprints(self) -> dict[str, str]:
        """Return hashes of the data and of the labels' meaning, which are numbers in the data."""
        means = hashlib.sha256(self.labels.meaning.encode()).hexdigest()
        taught = f":{self.teacher.digest()}" if self.teacher else ""
        return {"train": f"{self.train.digest()}:{means}{taught}", "valid": self.valid.digest()}


def called(labels: Labels | Scale) -> str:
    return "texts" if labels.texts == 1 else "pairs of texts"
