"""A trained classifier: it says what a text is, and how sure it is of that."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, overload

import numpy as np
import torch

from regard.data.batches import Ragged
from regard.data.classes import Labels
from regard.data.labelled import Example
from regard.data.labels import LabelledTexts, Marks, make_batch
from regard.decode.batching import in_batches
from regard.decode.config import DecodeConfig
from regard.errors import UserError
from regard.evaluate.classification import ClassificationScores
from regard.families.classifier import Classifier, classifier, marks
from regard.families.sizes import context
from regard.recipe import Recipe
from regard.tasks.opening import fill, must_be_as_trained, ready, vocabulary_of
from regard.tasks.run import Run, aside
from regard.tasks.telling import Emit
from regard.text.tokenizer import Tokenizer

VOCABULARY, LABELS, ERRORS = "tokenizer.json", "labels.json", "errors.tsv"
Text = str | tuple[str, str]  # or a pair of texts


class Answer(NamedTuple):
    label: str
    probabilities: dict[str, float]


@dataclass(frozen=True)
class Classified:
    """Scores on a test set, and every answer."""

    scores: ClassificationScores
    outputs: list[str]
    errors: str  # what was done with them, for people

    def lines(self) -> list[str]:
        return [*self.scores.lines(), self.errors]

    def as_dict(self) -> dict[str, Any]:
        return self.scores.as_dict()


@dataclass(frozen=True)
class Reader:
    """How texts become the ids that a model was trained on."""

    tokenizer: Tokenizer
    marks: Marks
    cut: int  # to so many tokens; 0: not at all
    room: int | None  # positions the model has; None where they do not end

    @classmethod
    def of(cls, recipe: Recipe, tokenizer: Tokenizer) -> Reader:
        cut, room = recipe.data.maximum_tokens, context(recipe.model)
        if room is not None and cut > room:
            raise UserError(
                f"data.maximum_tokens={cut} is more than model.maximum_length={room} positions; set it to {room} or less."
            )
        return cls(tokenizer, marks(recipe.model, tokenizer.roles), cut, room)

    def encode(self, texts: Sequence[tuple[str, ...]], places: Sequence[str]) -> tuple[Ragged, np.ndarray, int]:
        """Ids with their marks, where second texts begin, how many were cut; one that does not fit is refused by its place."""
        columns = [self.tokenizer.encode_batch(column) for column in zip(*texts)]
        rows, cut = [list(ids) for ids in zip(*columns)], 0
        for ids, place in zip(rows, places):
            length = self.marks.length(ids)
            cut += 0 < self.cut < length
            if not self.cut and self.room is not None and length > self.room:
                raise UserError(
                    f"{place} is {length:,} tokens long, its marks counted, but the model has {self.room:,} positions; set "
                    f"data.maximum_tokens={self.room} to cut such texts, or take it out."
                )
        laid = [self.marks.around(ids, self.cut or self.marks.length(ids)) for ids in rows]
        return Ragged([ids for ids, _ in laid]), np.array([second for _, second in laid], np.int64), cut


@dataclass
class Labeller:
    model: Classifier
    reader: Reader
    labels: Labels
    decode: DecodeConfig
    run: Run | None = None  # where mistakes are listed

    @classmethod
    def of(cls, run: Run, recipe: Recipe, device: torch.device) -> Labeller:
        must_be_as_trained(run, recipe)
        tokenizer, labels = Tokenizer.load(run.folder / VOCABULARY, foreign=True), Labels.load(run.folder / LABELS)
        weights = run.weights()
        model = classifier(recipe.model, vocabulary_of(recipe, tokenizer), len(labels))
        fill(model, weights)
        return cls(ready(model, recipe.decode.weights, device), Reader.of(recipe, tokenizer), labels, recipe.decode, run)

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
        parts = [(text,) if isinstance(text, str) else tuple(text) for text in texts]
        for given in parts:
            if len(given) != self.labels.texts:
                trained = "pairs of texts" if self.labels.texts == 2 else "single texts"
                raise UserError(
                    f"{given[0][:40]!r}: this model was trained on {trained}; give {self.labels.texts}, not {len(given)}."
                )
        names = self.labels.names
        return [
            Answer(names[int(row.argmax())], dict(zip(names, map(float, row))))
            for row in self._probabilities(parts, [repr(given[0][:40]) for given in parts])
        ]

    @torch.no_grad()
    def _probabilities(self, texts: Sequence[tuple[str, ...]], places: Sequence[str]) -> np.ndarray:
        """One row a text, in the order given, computed in batches of like length."""
        found = np.zeros((len(texts), len(self.labels)))
        if not texts:
            return found
        ids, seconds, cut = self.reader.encode(texts, places)
        if cut:
            aside(f"{cut:,} of {len(texts):,} texts were longer than data.maximum_tokens={self.reader.cut} and have been cut")
        data, device = LabelledTexts(ids, seconds, np.zeros(len(texts), np.int64)), next(self.model.parameters()).device
        for rows in in_batches(ids.lengths.tolist(), self.decode.batch_tokens):
            batch = make_batch(data, np.array(rows)).to(device)
            logits_NC = self.model(batch.ids_BL, batch.words, batch.segments_BL)
            found[rows] = logits_NC.double().softmax(-1).cpu().numpy()
        return found

    def predict(self, texts: Sequence[str], first: int | None, as_json: bool, emit: Emit) -> None:
        """`label<TAB>probability` for each text; an empty line for an empty one. The texts of a pair have a tab between them."""
        written = [text for text in texts if text.strip()]
        answers = iter(self.classify([self._as_typed(text) for text in written]))
        for text in texts:
            answer = next(answers) if text.strip() else None
            if as_json:
                label, probabilities = answer or (None, {})
                emit(json.dumps({"text": text, "label": label, "probabilities": probabilities}, ensure_ascii=False) + "\n")
            else:
                emit(f"{answer.label}\t{answer.probabilities[answer.label]:.4f}\n" if answer else "\n")

    def _as_typed(self, text: str) -> Text:
        if self.labels.texts == 1:
            return text
        first, _, second = text.partition("\t")
        if not (first.strip() and second.strip()):
            raise UserError(f"{text[:40]!r}: this model was trained on pairs of texts; put a tab between the two.")
        return first, second

    def evaluate(self, test: Sequence[Example]) -> Classified:
        """Scores, with the mistakes listed in the run's folder."""
        true = self.labels.numbers(test, "test")
        found = self._probabilities([example.texts for example in test], [f"data.test: {example.place}" for example in test])
        nll = float(-np.log(np.maximum(found[np.arange(len(test)), true], 1e-300)).mean())
        said = found.argmax(1)
        scores = ClassificationScores.of(self.labels.names, true, said, nll)
        return Classified(scores, [self.labels.names[n] for n in said], self._list_errors(test, said, found))

    def _list_errors(self, test: Sequence[Example], said: np.ndarray, found: np.ndarray) -> str:
        """The surest mistake first."""
        names, sure = self.labels.names, found.max(1)
        wrong = [n for n in np.argsort(-sure, kind="stable") if names[said[n]] != test[n].label]
        if self.run is None or not os.access(self.run.folder, os.W_OK):
            return f"{len(wrong):,} mistakes; not listed, since the run's folder cannot be written"
        header = [*("text", "second")[: self.labels.texts], "label", "predicted", "probability"]
        rows = [[*map(_on_one_line, test[n].texts), test[n].label, names[said[n]], f"{sure[n]:.4f}"] for n in wrong]
        self.run.write(ERRORS, "".join("\t".join(row) + "\n" for row in [header, *rows]))
        return f"{len(wrong):,} mistakes, the surest first: {self.run.folder / ERRORS}"


def _on_one_line(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
