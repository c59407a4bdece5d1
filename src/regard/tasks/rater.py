"""A trained rater: it gives a text, or a pair of texts, a number, such as how alike the two are."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
import torch

from regard.data.labelled import Example
from regard.data.scale import Scale, values
from regard.decode.config import DecodeConfig
from regard.evaluate.similarity import SimilarityScores
from regard.families.classifier import Classifier
from regard.recipe import Recipe
from regard.tasks.answered import Answered
from regard.tasks.classifier import LABELS, VOCABULARY, adopted, opened
from regard.tasks.mistakes import list_mistakes
from regard.tasks.reading import EITHER, Parts, Reader, Text, as_typed, in_parts, scores
from regard.tasks.run import Run
from regard.tasks.start import Start
from regard.tasks.task import Vocabulary
from regard.tasks.telling import Emit

AS_IT_IS = Scale(lowest=0.0, highest=1.0, mean=0.0, deviation=1.0, texts=EITHER)  # what a public folder's score stands for


@dataclass
class Rater:
    model: Classifier
    reader: Reader
    scale: Scale
    decode: DecodeConfig
    run: Run | None = None  # where mistakes are listed
    columns: tuple[str, ...] = ()  # of a table to predict from, as in training: the label's the last

    @classmethod
    def of(cls, run: Run, recipe: Recipe, device: torch.device) -> Rater:
        scale = Scale.load(run.folder / LABELS)
        return cls(*opened(run, recipe, device, len(scale)), scale, recipe.decode, run, recipe.data.columns)

    @classmethod
    def of_start(cls, start: Start, recipe: Recipe, device: torch.device) -> Rater:
        return cls(*adopted(start, recipe, device), AS_IT_IS, recipe.decode, None, recipe.data.columns)

    @property
    def texts(self) -> int:
        """At a time."""
        return self.scale.texts

    @property
    def tells(self) -> tuple[str, ...]:
        """Of a row of a table."""
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
        """What a row of a table is told, by column."""
        return [{"predicted": float(number)} for number in self._numbers(asked, [repr(given[0][:40]) for given in asked])]

    def evaluate(self, test: Sequence[Example]) -> Answered[SimilarityScores]:
        """Scores, with every text listed in the run's folder, the farthest off first."""
        self.scale.numbers(test, "test")  # refuses what training had otherwise
        true = values(test, "test")
        said = self._numbers([example.texts for example in test], [f"data.test: {example.place}" for example in test])
        header = [*("text", "second")[: len(test[0].texts)], "label", "predicted", "off"]
        order = np.argsort(-np.abs(said - true), kind="stable")
        rows = [[*test[n].texts, test[n].label, f"{said[n]:.4f}", f"{said[n] - true[n]:+.4f}"] for n in order]
        listed = list_mistakes(self.run, "the farthest off first", header, rows, "texts")
        return Answered(SimilarityScores.of(true, said), [f"{number:.4f}" for number in said], listed)
