"""A trained classifier: it says what a text is, and how sure it is of that.

A trained rater: it gives a text, or a pair of texts, a number, such as how alike the two are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, overload

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
from regard.runs.load import load_model, must_be_as_trained, ready, vocabulary_of
from regard.runs.pretrained import InitCheckpoint
from regard.runs.protocols import Vocabulary
from regard.runs.recipe import Recipe, Tables
from regard.tasks.classification.reader import EITHER, Parts, Reader, Text, as_typed, in_parts, scores, scores_of_examples
from regard.tasks.results import EvaluationResult, list_mistakes
from regard.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from regard.lens.analyses.document import Document
    from regard.lens.subject import Subject

VOCABULARY, LABELS = "tokenizer.json", "labels.json"


class Answer(NamedTuple):
    label: str
    probabilities: dict[str, float]


@dataclass
class TextClassifier:
    model: Classifier
    reader: Reader
    labels: Labels
    decode: DecodeConfig
    run: Run | None = None  # where mistakes are listed
    columns: tuple[str, ...] = ()  # of a table to predict from, as in training: the label's the last

    @classmethod
    def of(cls, run: Run, recipe: Recipe, device: torch.device) -> TextClassifier:
        labels = Labels.load(run.folder / LABELS)
        return cls(*opened(run, recipe, device, len(labels)), labels, recipe.decode, run, recipe.data.columns)

    @classmethod
    def of_start(cls, start: InitCheckpoint, recipe: Recipe, device: torch.device) -> TextClassifier:
        """A public folder does not say whether it was trained on texts or on pairs, so it takes both."""
        labels = Labels(start.labels, EITHER)
        return cls(*adopted(start, recipe, device), labels, recipe.decode, None, recipe.data.columns)

    @property
    def texts(self) -> int:
        """Return the number of texts in one input."""
        return self.labels.texts

    @property
    def tells(self) -> tuple[str, ...]:
        """Return the names of the columns that `fields` adds to a table."""
        return ("predicted", "probability")

    @property
    def vocabularies(self) -> Mapping[str, Vocabulary]:
        return {VOCABULARY: self.reader.tokenizer, LABELS: self.labels}

    @overload
    def __call__(self, text: Text) -> str: ...
    @overload
    def __call__(self, text: list[Text]) -> list[str]: ...
    def __call__(self, text: Text | list[Text]) -> str | list[str]:
        """The label of one text, or of each of many; a pair is a tuple of two."""
        if isinstance(text, list):
            return [answer.label for answer in self.classify(text)]
        return self.classify([text])[0].label

    def classify(self, texts: Sequence[Text]) -> list[Answer]:
        """The most likely label of each, and the probability of every label."""
        parts, names = in_parts(texts, self.labels.texts), self.labels.names
        places = [repr(given[0][:40]) for given in parts]
        found = probabilities(scores(self.model, self.reader, parts, places, self.decode.batch_tokens))
        return [Answer(names[int(row.argmax())], dict(zip(names, map(float, row)))) for row in found]

    def predict(self, texts: Sequence[str], first: int | None, as_json: bool, emit: Emit) -> None:
        """`label<TAB>probability` for each text; an empty line for an empty one. The texts of a pair have a tab between them."""
        written = [text for text in texts if text.strip()]
        answers = iter(self.classify([as_typed(text, self.labels.texts) for text in written]))
        for text in texts:
            answer = next(answers) if text.strip() else None
            if as_json:
                label, probabilities = answer or (None, {})
                emit(json.dumps({"text": text, "label": label, "probabilities": probabilities}, ensure_ascii=False) + "\n")
            else:
                emit(f"{printable(answer.label)}\t{answer.probabilities[answer.label]:.4f}\n" if answer else "\n")

    def fields(self, asked: Sequence[Parts], first: int) -> list[dict[str, Any]]:
        """Return the new columns of each row of a table."""
        answers = self.classify([given[0] if len(given) == 1 else (given[0], given[1]) for given in asked])
        return [dict(zip((*self.tells, "probabilities"), (a.label, a.probabilities[a.label], a.probabilities))) for a in answers]

    @property
    def tokenizer(self) -> Tokenizer:
        return self.reader.tokenizer

    @property
    def example(self) -> str:
        return example_for(self.model, self.labels.texts)

    def subject(self, text: str, target: str | None = None, hypothesis: int | None = None) -> Subject:
        from regard.tasks.classification.inspect import of_labeller

        return of_labeller(self, text, target)

    def test_texts(self, test: Sequence[Example]) -> Iterator[tuple[str, str | None]]:
        return (("\t".join(example.texts), example.label) for example in test)

    def document(self, text: str) -> Document:
        from regard.tasks.classification.inspect import document_of

        return document_of(self, text)

    def evaluate(self, test: Sequence[Example]) -> EvaluationResult[ClassificationScores]:
        """Scores, with the mistakes listed in the run's folder, the surest first."""
        names, true = self.labels.names, self.labels.numbers(test, "test")
        found = probabilities(scores_of_examples(self.model, self.reader, test, "test", self.decode.batch_tokens))
        nll = float(-np.log(np.maximum(found[np.arange(len(test)), true], 1e-300)).mean())
        said, sure = found.argmax(1), found.max(1)
        header = [*("text", "second")[: len(test[0].texts)], "label", "predicted", "probability"]
        wrong = [n for n in np.argsort(-sure, kind="stable") if said[n] != true[n]]
        rows = [[*test[n].shown, test[n].label, names[said[n]], f"{sure[n]:.4f}"] for n in wrong]
        listed = list_mistakes(self.run, "the surest first", header, rows)
        return EvaluationResult(ClassificationScores.of(names, true, said, nll), [names[n] for n in said], listed)


def probabilities(scores_NC: np.ndarray) -> np.ndarray:
    odds_NC = np.exp(scores_NC - scores_NC.max(1, keepdims=True))
    return odds_NC / odds_NC.sum(1, keepdims=True)


def opened(run: Run, recipe: Recipe, device: torch.device, outputs: int) -> tuple[Classifier, Reader]:
    """Open the model and the reader of a run with `outputs` scores for each text."""
    must_be_as_trained(run, recipe)
    tokenizer = Tokenizer.load(run.folder / VOCABULARY, foreign=True)
    model = load_model(run, lambda: classifier(recipe.model, vocabulary_of(recipe, tokenizer), outputs))
    return ready(model, recipe.decode.weights, device), Reader.of(recipe, tokenizer)


def adopted(start: InitCheckpoint, recipe: Recipe, device: torch.device) -> tuple[Classifier, Reader]:
    """Open the model and the reader of a public folder that has a head for whole texts."""
    if not start.heads.classes:
        raise UserError(
            f"{start.name} has no head that classifies texts; train one on top of it with task.init_from={start.name}."
        )
    model = filled(start, recipe, start.heads.classes)
    return ready(model, recipe.decode.weights, device), Reader.of(recipe, start.tokenizer)


def filled(start: InitCheckpoint, recipe: Recipe, outputs: int) -> Classifier:
    """Return a classifier with the weights of a checkpoint, its head included."""
    model = classifier(recipe.model, start.vocabulary, outputs)
    start.fill(model.body)
    model.classes.load_state_dict({name.removeprefix("classes."): w for name, w in start.weights.items() if _in_head(name)})
    return model


def _in_head(name: str) -> bool:
    return name.startswith("classes.")


AS_IT_IS = Scale(lowest=0.0, highest=1.0, mean=0.0, deviation=1.0, texts=EITHER)  # what a public folder's score stands for


@dataclass
class Regressor:
    model: Classifier
    reader: Reader
    scale: Scale
    decode: DecodeConfig
    run: Run | None = None  # where mistakes are listed
    columns: tuple[str, ...] = ()  # of a table to predict from, as in training: the label's the last

    @classmethod
    def of(cls, run: Run, recipe: Recipe, device: torch.device) -> Regressor:
        scale = Scale.load(run.folder / LABELS)
        return cls(*opened(run, recipe, device, len(scale)), scale, recipe.decode, run, recipe.data.columns)

    @classmethod
    def of_start(cls, start: InitCheckpoint, recipe: Recipe, device: torch.device) -> Regressor:
        return cls(*adopted(start, recipe, device), AS_IT_IS, recipe.decode, None, recipe.data.columns)

    @property
    def texts(self) -> int:
        """Return the number of texts in one input."""
        return self.scale.texts

    @property
    def tells(self) -> tuple[str, ...]:
        """Return the names of the columns that `fields` adds to a table."""
        return ("predicted",)

    @property
    def vocabularies(self) -> Mapping[str, Vocabulary]:
        return {VOCABULARY: self.reader.tokenizer, LABELS: self.scale}

    @overload
    def __call__(self, text: Text) -> float: ...
    @overload
    def __call__(self, text: list[Text]) -> list[float]: ...
    def __call__(self, text: Text | list[Text]) -> float | list[float]:
        """The number of one text, or of each of many; a pair is a tuple of two."""
        return self.rate(text) if isinstance(text, list) else self.rate([text])[0]

    def rate(self, texts: Sequence[Text]) -> list[float]:
        parts = in_parts(texts, self.scale.texts)
        return [float(number) for number in self._numbers(parts, [repr(given[0][:40]) for given in parts])]

    def _numbers(self, texts: Sequence[Parts], places: Sequence[str]) -> np.ndarray:
        return self.scale.restored(scores(self.model, self.reader, texts, places, self.decode.batch_tokens)[:, 0])

    def predict(self, texts: Sequence[str], first: int | None, as_json: bool, emit: Emit) -> None:
        """A number for each text; an empty line for an empty one. The texts of a pair have a tab between them."""
        answers = iter(self.rate([as_typed(text, self.scale.texts) for text in texts if text.strip()]))
        for text in texts:
            number = next(answers) if text.strip() else None
            if as_json:
                emit(json.dumps({"text": text, "number": number}, ensure_ascii=False) + "\n")
            else:
                emit("\n" if number is None else f"{number:.4f}\n")

    def fields(self, asked: Sequence[Parts], first: int) -> list[dict[str, float]]:
        """Return the new columns of each row of a table."""
        return [{"predicted": float(number)} for number in self._numbers(asked, [repr(given[0][:40]) for given in asked])]

    @property
    def tokenizer(self) -> Tokenizer:
        return self.reader.tokenizer

    @property
    def example(self) -> str:
        return example_for(self.model, self.scale.texts)

    def subject(self, text: str, target: str | None = None, hypothesis: int | None = None) -> Subject:
        from regard.tasks.classification.inspect import of_rater

        return of_rater(self, text, target)

    def test_texts(self, test: Sequence[Example]) -> Iterator[tuple[str, str | None]]:
        return (("\t".join(example.texts), example.label) for example in test)

    def document(self, text: str) -> Document:
        from regard.tasks.classification.inspect import document_of

        return document_of(self, text)

    def evaluate(self, test: Sequence[Example]) -> EvaluationResult[SimilarityScores]:
        """Scores, with every text listed in the run's folder, the farthest off first."""
        self.scale.numbers(test, "test")  # refuses what training had otherwise
        true = values(test, "test")
        said = self._numbers([example.texts for example in test], [f"data.test: {example.place}" for example in test])
        header = [*("text", "second")[: len(test[0].texts)], "label", "predicted", "off"]
        order = np.argsort(-np.abs(said - true), kind="stable")
        rows = [[*test[n].texts, test[n].label, f"{said[n]:.4f}", f"{said[n] - true[n]:+.4f}"] for n in order]
        listed = list_mistakes(self.run, "the farthest off first", header, rows, "texts")
        return EvaluationResult(SimilarityScores.of(true, said), [f"{number:.4f}" for number in said], listed)


def example_for(model: Classifier, texts: int) -> str:
    """Return a text, a pair or a document, as the model reads them."""
    if texts == 2:
        return "a man is eating food\ta man is eating"
    if family_of(model).has("nested_documents"):
        return "we loved the penguins . the food was cold , and nobody came . we shall not come again ."
    return "the small cat sees the red house"


def open_run(run: Run, recipe: Recipe, device: torch.device) -> TextClassifier | Regressor:
    """Open a trained run: one that gives numbers, or one that gives labels."""
    return (Regressor if recipe.objective.name == "regression" else TextClassifier).of(run, recipe, device)


def adopt(start: InitCheckpoint, recipe: Recipe, device: torch.device) -> TextClassifier | Regressor:
    """Open a public checkpoint without training; one with a single score for each text gives numbers."""
    return (Regressor if start.heads.classes == 1 else TextClassifier).of_start(start, recipe, device)


def adopted_settings(start: InitCheckpoint) -> Tables:
    """Return the objective that a public checkpoint was trained with."""
    return {"objective": {"name": "regression"}} if start.heads.classes == 1 else {}
