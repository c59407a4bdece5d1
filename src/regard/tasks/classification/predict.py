"""A trained classifier: it says what a text is, and how sure it is of that.

A trained rater: it gives a text, or a pair of texts, a number, such as how alike the two are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self, overload

import numpy as np
import torch

from regard.core.errors import UserError
from regard.core.terminal import Emit, printable
from regard.data.labels import Labels, Scale, values
from regard.data.sources.labelled import Example
from regard.decode.config import DecodeConfig
from regard.families import family_of
from regard.families.classifier import Classifier, classifier
from regard.metrics.classification import ClassificationScores
from regard.metrics.correlation import SimilarityScores
from regard.runs.folder import Run
from regard.runs.pretrained import InitCheckpoint
from regard.runs.protocols import Vocabulary
from regard.runs.recipe import Recipe, Tables
from regard.runs.task import lazy
from regard.tasks.classification.reader import EITHER, Parts, Reader, Text, as_typed, in_parts, scores, scores_of_examples
from regard.tasks.predictor import EvaluationResult, ReaderPredictor, each_with, list_mistakes, open_model

LABELS = "labels.json"


class Answer(NamedTuple):
    label: str
    probabilities: dict[str, float]


AS_IT_IS = Scale(lowest=0.0, highest=1.0, mean=0.0, deviation=1.0, texts=EITHER)  # what a public folder's score stands for


@dataclass
class TextScorer(ReaderPredictor):
    """A predictor that scores texts or pairs of texts; the scores stand for labels, or for a number."""

    model: Classifier
    reader: Reader
    labels: Any  # Labels, or a Scale of numbers
    decode: DecodeConfig
    run: Run | None = None  # where mistakes are listed
    columns: tuple[str, ...] = ()  # of a table to predict from, as in training: the label's the last

    @classmethod
    def labels_of(cls, source: Run | InitCheckpoint) -> Any:
        """Return what the scores stand for."""
        raise NotImplementedError

    @classmethod
    def of(cls, source: Run | InitCheckpoint, recipe: Recipe, device: torch.device) -> Self:
        """Open a run, or a public folder, which does not say whether it was trained on texts or on pairs, so it takes both."""
        labels, run = cls.labels_of(source), source if isinstance(source, Run) else None
        if isinstance(source, InitCheckpoint) and not source.heads.classes:
            raise UserError(
                f"{source.name} has no head that classifies texts; train one on top of it with task.init_from={source.name}."
            )
        outputs = source.heads.classes if isinstance(source, InitCheckpoint) else len(labels)
        model, tokenizer = open_model(
            source, recipe, device, lambda size: classifier(recipe.model, size, outputs), part="body", head="classes"
        )
        return cls(model, Reader.of(recipe, tokenizer), labels, recipe.decode, run, recipe.data.columns)

    @property
    def texts(self) -> int:
        """Return the number of texts in one input."""
        return int(self.labels.texts)

    @property
    def vocabularies(self) -> dict[str, Vocabulary]:
        return super().vocabularies | {LABELS: self.labels}

    @property
    def example(self) -> str:
        """A text, a pair or a document, as the model reads them."""
        if self.texts == 2:
            return "a man is eating food\ta man is eating"
        if family_of(self.model).has("nested_documents"):
            return "we loved the penguins . the food was cold , and nobody came . we shall not come again ."
        return "the small cat sees the red house"

    def test_texts(self, test: Sequence[Example]) -> Iterator[tuple[str, str | None]]:
        return (("\t".join(example.texts), example.label) for example in test)

    document = lazy("regard.tasks.classification.inspect:document_of")
    routes = lazy("regard.tasks.classification.serve:routes")

    def scores(self, texts: Sequence[Text | Parts]) -> np.ndarray:
        """Return scores_NC, a row for each text or pair of texts."""
        parts = in_parts(texts, self.texts)
        return scores(self.model, self.reader, parts, [repr(given[0][:40]) for given in parts], self.decode.batch_tokens)

    def scores_of_test(self, test: Sequence[Example]) -> np.ndarray:
        return scores_of_examples(self.model, self.reader, test, "test", self.decode.batch_tokens)


class TextClassifier(TextScorer):
    """Gives texts a label each."""

    labels: Labels
    tells = ("predicted", "probability")  # the columns that `fields` adds to a table
    subject = lazy("regard.tasks.classification.inspect:of_labeller")

    @classmethod
    def labels_of(cls, source: Run | InitCheckpoint) -> Labels:
        return Labels.load(source.folder / LABELS) if isinstance(source, Run) else Labels(source.labels, EITHER)

    @overload
    def __call__(self, text: Text) -> str: ...
    @overload
    def __call__(self, text: list[Text]) -> list[str]: ...
    def __call__(self, text: Text | list[Text]) -> str | list[str]:
        """The label of one text, or of each of many; a pair is a tuple of two."""
        if isinstance(text, list):
            return [answer.label for answer in self.classify(text)]
        return self.classify([text])[0].label

    def classify(self, texts: Sequence[Text | Parts]) -> list[Answer]:
        """The most likely label of each, and the probability of every label."""
        names = self.labels.names
        return [Answer(names[int(row.argmax())], dict(zip(names, map(float, row)))) for row in probabilities(self.scores(texts))]

    def predict(self, texts: Sequence[str], first: int | None, as_json: bool, emit: Emit) -> None:
        """`label<TAB>probability` for each text; an empty line for an empty one. The texts of a pair have a tab between them."""
        for text, answer in each_with(texts, lambda some: self.classify([as_typed(text, self.texts) for text in some])):
            if as_json:
                label, probabilities = answer or (None, {})
                emit(json.dumps({"text": text, "label": label, "probabilities": probabilities}, ensure_ascii=False) + "\n")
            else:
                emit(f"{printable(answer.label)}\t{answer.probabilities[answer.label]:.4f}\n" if answer else "\n")

    def fields(self, asked: Sequence[Parts], first: int) -> list[dict[str, Any]]:
        """Return the new columns of each row of a table."""
        return [
            {"predicted": a.label, "probability": a.probabilities[a.label], "probabilities": a.probabilities}
            for a in self.classify(asked)
        ]

    def evaluate(self, test: Sequence[Example]) -> EvaluationResult[ClassificationScores]:
        """Scores, with the mistakes listed in the run's folder, the surest first."""
        true, header = self.labels.numbers(test, "test"), [*("text", "second")[: len(test[0].texts)], "label"]
        found_NC = self.scores_of_test(test)
        return evaluated(self.labels.names, true, found_NC, self.run, header, lambda n: (*test[n].shown, test[n].label))


def evaluated(
    names: Sequence[str],
    true: np.ndarray,
    scores_NC: np.ndarray,
    run: Run | None,
    header: Sequence[str],
    row: Callable[[int], Sequence[str]],
    unit: str = "texts",
) -> EvaluationResult[ClassificationScores]:
    """Return the scores of a test set, and list the mistakes in the run's folder: a `row` of each, and what was predicted."""
    found = probabilities(scores_NC)
    nll = float(-np.log(np.maximum(found[np.arange(len(true)), true], 1e-300)).mean())
    said, sure = found.argmax(1), found.max(1)
    wrong = [n for n in np.argsort(-sure, kind="stable") if said[n] != true[n]]
    rows = [[*row(n), names[said[n]], f"{sure[n]:.4f}"] for n in wrong]
    listed = list_mistakes(run, "the surest first", [*header, "predicted", "probability"], rows)
    return EvaluationResult(ClassificationScores.of(names, true, said, nll, unit), [names[n] for n in said], listed)


def probabilities(scores_NC: np.ndarray) -> np.ndarray:
    odds_NC = np.exp(scores_NC - scores_NC.max(1, keepdims=True))
    return odds_NC / odds_NC.sum(1, keepdims=True)


class Regressor(TextScorer):
    """Gives texts a number each."""

    labels: Scale
    tells = ("predicted",)  # the column that `fields` adds to a table
    subject = lazy("regard.tasks.classification.inspect:of_rater")

    @classmethod
    def labels_of(cls, source: Run | InitCheckpoint) -> Scale:
        return Scale.load(source.folder / LABELS) if isinstance(source, Run) else AS_IT_IS

    @overload
    def __call__(self, text: Text) -> float: ...
    @overload
    def __call__(self, text: list[Text]) -> list[float]: ...
    def __call__(self, text: Text | list[Text]) -> float | list[float]:
        """The number of one text, or of each of many; a pair is a tuple of two."""
        return self.rate(text) if isinstance(text, list) else self.rate([text])[0]

    def rate(self, texts: Sequence[Text | Parts]) -> list[float]:
        return [float(number) for number in self.labels.restored(self.scores(texts)[:, 0])]

    def predict(self, texts: Sequence[str], first: int | None, as_json: bool, emit: Emit) -> None:
        """A number for each text; an empty line for an empty one. The texts of a pair have a tab between them."""
        for text, number in each_with(texts, lambda some: self.rate([as_typed(text, self.texts) for text in some])):
            if as_json:
                emit(json.dumps({"text": text, "number": number}, ensure_ascii=False) + "\n")
            else:
                emit("\n" if number is None else f"{number:.4f}\n")

    def fields(self, asked: Sequence[Parts], first: int) -> list[dict[str, float]]:
        """Return the new columns of each row of a table."""
        return [{"predicted": number} for number in self.rate(asked)]

    def evaluate(self, test: Sequence[Example]) -> EvaluationResult[SimilarityScores]:
        """Scores, with every text listed in the run's folder, the farthest off first."""
        self.labels.numbers(test, "test")  # refuses what training had otherwise
        true = values(test, "test")
        said = self.labels.restored(self.scores_of_test(test)[:, 0])
        header = [*("text", "second")[: len(test[0].texts)], "label", "predicted", "off"]
        order = np.argsort(-np.abs(said - true), kind="stable")
        rows = [[*test[n].texts, test[n].label, f"{said[n]:.4f}", f"{said[n] - true[n]:+.4f}"] for n in order]
        listed = list_mistakes(self.run, "the farthest off first", header, rows, "texts")
        return EvaluationResult(SimilarityScores.of(true, said), [f"{number:.4f}" for number in said], listed)


def open_scorer(source: Run | InitCheckpoint, recipe: Recipe, device: torch.device) -> TextScorer:
    """Open a trained run, or a checkpoint as it is: one that gives numbers, as with a single score for a text, or labels."""
    rates = recipe.objective.name == "regression" if isinstance(source, Run) else source.heads.classes == 1
    return (Regressor if rates else TextClassifier).of(source, recipe, device)


def adopted_settings(start: InitCheckpoint) -> Tables:
    """Return the objective that a public checkpoint was trained with."""
    return {"objective": {"name": "regression"}} if start.heads.classes == 1 else {}
