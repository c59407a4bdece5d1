"""A trained image classifier: it says what is in an image, and how sure it is of that.

Dims: N images, B batch, Y X rows and columns, C colours, K classes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, overload

import numpy as np
import torch

from regard.core.errors import UserError
from regard.core.terminal import Emit, printable
from regard.data.labels import Labels
from regard.data.sources.image_sets import Form, ImageSet, image_columns, open_images
from regard.data.sources.labelled import Example
from regard.decode.config import DecodeConfig
from regard.families import build_model
from regard.families.base import Heads
from regard.metrics.classification import ClassificationScores
from regard.runs.folder import Run
from regard.runs.load import load_model, must_be_as_trained, ready
from regard.runs.pretrained import InitCheckpoint
from regard.runs.protocols import Vocabulary
from regard.runs.recipe import Recipe
from regard.runs.task import lazy
from regard.tasks.classification.predict import LABELS, Answer, evaluated, probabilities
from regard.tasks.predictor import EvaluationResult

if TYPE_CHECKING:
    from PIL import Image

    from regard.lens.subject import Subject

TOGETHER = 2**25  # pixels of images that are classified together


def form_of(recipe: Recipe) -> Form:
    """Return the form that a recipe's model reads images in."""
    return Form(recipe.model.image_size, recipe.model.colours, recipe.data.resize)


def open_classifier(source: Run | InitCheckpoint, recipe: Recipe) -> tuple[Any, Labels]:
    """Open the model of a run, or of a public folder with a head of classes, as it was saved, and its labels."""
    labels = Labels.load(source.folder / LABELS) if isinstance(source, Run) else Labels(source.labels, 1)

    def build() -> Any:
        return build_model(recipe.model, vocabulary=0, heads=Heads(words=False, classes=len(labels)))

    if isinstance(source, Run):
        must_be_as_trained(source, recipe)
        return load_model(source, build), labels
    if len(labels) < 2:
        raise UserError(
            f"{source.name} has no head that classifies images; train one on top of it with task.init_from={source.name}."
        )
    return source.open(build), labels


@dataclass
class ImageClassifier:
    """Gives images a label each."""

    model: Any
    labels: Labels
    form: Form
    decode: DecodeConfig
    run: Run | None = None  # where mistakes are listed
    columns: tuple[str, ...] = ()  # of a table to predict from, as in training: the label's the last
    among: Path | None = None  # the folder that paths of a table begin in

    tokenizer = None
    texts = 1  # paths in a row of a table
    tells = ("predicted", "probability")
    example = "IMAGE.png"
    routes = lazy("regard.tasks.image_classification.serve:routes")

    @classmethod
    def of(cls, source: Run | InitCheckpoint, recipe: Recipe, device: torch.device) -> Self:
        """Open a run, or a public folder with a head of classes."""
        model, labels = open_classifier(source, recipe)
        run = source if isinstance(source, Run) else None
        return cls(ready(model, recipe.decode.weights, device), labels, form_of(recipe), recipe.decode, run, recipe.data.columns)

    @property
    def device(self) -> torch.device:
        device: torch.device = next(self.model.parameters()).device
        return device

    @property
    def vocabularies(self) -> dict[str, Vocabulary]:
        return {LABELS: self.labels}

    @overload
    def __call__(self, image: str) -> str: ...
    @overload
    def __call__(self, image: list[str]) -> list[str]: ...
    def __call__(self, image: str | list[str]) -> str | list[str]:
        """The label of an image file, or of each of many."""
        found = [answer.label for answer in self.classify(self.opened([image] if isinstance(image, str) else image))]
        return found[0] if isinstance(image, str) else found

    def opened(self, names: Sequence[str]) -> ImageSet:
        """Open image files, folders of them, archives, or built-in images (builtin:shapes/test/7), as the model reads them."""
        among = self.among
        return open_images(
            [name if among is None or Path(name).is_absolute() else str(among / name) for name in names], self.form
        )

    @torch.no_grad()
    def scores(self, images_NYXC: np.ndarray) -> np.ndarray:
        """Return scores_NK, a row for each image."""
        size = max(1, TOGETHER // max(1, images_NYXC[0].size)) if len(images_NYXC) else 1
        size = min(size, 1024 if self.device.type == "cuda" else 64)
        given = torch.from_numpy(np.ascontiguousarray(images_NYXC)).split(size)
        return np.concatenate([self.model(part_BYXC.to(self.device)).double().cpu().numpy() for part_BYXC in given])

    def classify(self, images: ImageSet) -> list[Answer]:
        """Return the most likely label of each image, and the probability of every label."""
        names = self.labels.names
        found_NK = probabilities(self.scores(images.pixels_NYXC))
        return [Answer(names[int(row.argmax())], dict(zip(names, map(float, row)))) for row in found_NK]

    def predict(self, texts: Sequence[str], first: int | None, as_json: bool, emit: Emit) -> None:
        """`image<TAB>label<TAB>probability` for each image; a text is a file, a folder of files or an archive."""
        for text in texts:
            if not text.strip():
                emit("\n")
                continue
            images = self.opened([text.strip()])
            for name, answer in zip(images.names, self.classify(images)):
                if as_json:
                    told = {"image": name, "label": answer.label, "probabilities": answer.probabilities}
                    emit(json.dumps(told, ensure_ascii=False) + "\n")
                else:
                    emit(f"{printable(name)}\t{printable(answer.label)}\t{answer.probabilities[answer.label]:.4f}\n")

    def subject(self, text: str, target: str | None = None, hypothesis: int | None = None) -> Subject:
        """Return an image for lens; `text` is the name of its file."""
        from regard.tasks.image_classification.inspect import of_named

        return of_named(self, text, target)

    def image_subject(self, image_YXC: np.ndarray, name: str, target: str | None = None) -> Subject:
        from regard.tasks.image_classification.inspect import of_classifier

        return of_classifier(self, image_YXC, name, target)

    def pixels(self, picture: Image.Image) -> np.ndarray:
        """Return image_YXC in the form that the model reads."""
        return self.form.of(picture)

    def of_table(self, path: Path) -> Self:
        """Return the same predictor for a table of paths: which column has them, and where they begin."""
        return replace(self, columns=self.columns or image_columns(path), among=path.parent)

    def fields(self, asked: Sequence[tuple[str, ...]], first: int) -> list[dict[str, Any]]:
        """Return the new columns of each row of a table."""
        answers = self.classify(self.opened([name for (name,) in asked]))
        return [
            {"predicted": a.label, "probability": a.probabilities[a.label], "probabilities": a.probabilities} for a in answers
        ]

    def test_texts(self, test: ImageSet) -> Iterator[tuple[str, str | None]]:
        return zip(test.names, test.labels or ())

    def evaluate(self, test: ImageSet) -> EvaluationResult[ClassificationScores]:
        """Scores, with the mistakes listed in the run's folder, the surest first."""
        examples = [Example(name, None, label, name) for name, label in zip(test.names, test.labels or ())]
        true = self.labels.numbers(examples, "test")
        scores_NK, header = self.scores(test.pixels_NYXC), ("image", "label")
        return evaluated(
            self.labels.names, true, scores_NK, self.run, header, lambda n: (examples[n].text, examples[n].label), "images"
        )
