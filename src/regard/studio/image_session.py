"""Runs that classify images or draw them, as studio needs them: their inputs are images, by the names that a gallery knows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
from PIL import Image
from torch import nn

from regard.commands.subjects import fresh_model
from regard.core.errors import UserError
from regard.data.sources.image_sets import read_image_set
from regard.data.sources.visual_questions import VisualQuestion, VisualQuestions
from regard.lens.analyses.image_heads import ImageRoles, image_roles
from regard.lens.analyses.image_heat import Heat
from regard.lens.analyses.word_senses import WordUses
from regard.lens.subject import Subject
from regard.model.probe import Probe
from regard.runs.protocols import AnswersImages, ReadsImages
from regard.runs.recipe import Recipe
from regard.runs.task import TASKS
from regard.studio.gallery import SHOWN, Gallery, Shelf, as_image
from regard.studio.session import Session
from regard.studio.vocabulary import Vocabulary

NO_WORDS = "this model reads images, so it has no words; Run shows what its patches or pixels attend to."
ONLY_RUN = "this model answers questions about images; Run shows where it attended, and nothing more is drawn of it."
LISTED = 600  # images of a run that are read for its gallery
DRAWN_IMAGES = ("builtin:shapes/test",)  # of a public folder, which has none of its own
Frame = Callable[[np.ndarray, int], None]


def images_of(reads: Any, recipe: Recipe | None) -> Shelf:
    """Read the first images that a run is tested on, validated with or trained on, with their labels where they have them."""
    data = None if recipe is None else recipe.data
    where = DRAWN_IMAGES if data is None else data.test or data.valid or data.train
    options: dict[str, Any] = {} if data is None else {"columns": data.columns, "images": data.images}
    form = reads.form if hasattr(reads, "form") else reads.levels.form(reads.data.resize)
    labelled = hasattr(reads, "labels") and data is not None
    found = read_image_set(where, form, limit=LISTED, labelled=labelled, **options)
    labels = found.labels or ("",) * len(found)
    return Shelf(found.pixels_NYXC, found.names, labels, lambda n: as_image(found.pixels_NYXC[n]))


@dataclass(frozen=True, eq=False)
class ClassifierSession(Session):
    """`listed` reads the images that the run is tested on, or validated with."""

    classifier: ReadsImages
    listed: Callable[[], Shelf]
    task: str
    weights: str

    @property
    def model(self) -> nn.Module:
        found: nn.Module = self.classifier.model
        return found

    @property
    def example(self) -> str:
        return self.gallery.shelf.names[0]

    @cached_property
    def gallery(self) -> Gallery:
        return Gallery(self.classifier.pixels, self.listed, "classes")

    def subject(self, text: str, target: str | None) -> Subject:
        return self.classifier.image_subject(self.gallery.picture(text).read_YXC, self.gallery.label(text) or text, target)

    def answer(self, text: str) -> str:
        found = self.subject(text, None)
        return found.choices(int(found.targets_L[0]))

    def image_roles(self, text: str, subject: Subject, seen: Probe) -> ImageRoles:
        random: Any = replace(self.classifier, model=self._random)  # type: ignore[type-var]
        return image_roles(subject, random.image_subject(self.gallery.picture(text).read_YXC, text, None), seen)

    @cached_property
    def _random(self) -> nn.Module:
        """The same model with the weights that training starts from."""
        return fresh_model(self.model).to(next(self.model.parameters()).device).eval()

    def vocabulary(self) -> Vocabulary:
        raise UserError(NO_WORDS)

    def uses(self, word: str, sentences: Sequence[str]) -> WordUses:
        raise UserError(NO_WORDS)


@dataclass(frozen=True, eq=False)
class DrawingSession(ClassifierSession):
    """A model that draws images pixel by pixel. What it has drawn joins the images that are kept."""

    @cached_property
    def gallery(self) -> Gallery:
        return Gallery(self.classifier.pixels, self.listed, "pixels")

    @property
    def classes(self) -> Sequence[str]:
        found: Sequence[str] = self.classifier.levels.classes  # type: ignore[attr-defined]
        return found

    @property
    def side(self) -> int:
        found: int = self.model.config.image_size  # type: ignore[union-attr, assignment]
        return found

    def answer(self, text: str) -> str:
        return f"an image of {self.side} × {self.side} pixels"

    def draw(self, text: str, image: str, number: int, seen: Frame) -> str:
        """Draw an image of the class `text`, or the rest of an image; return the name by which it is kept."""
        from regard.tasks.image_generation.inspect import wish_of

        begun = self.gallery.picture(image).read_YXC if image else None
        generator: Any = self.classifier
        one = replace(generator, decode=replace(generator.decode, samples=1))
        found_YXC = one.write([wish_of(generator, text, begun)], number, seen)[0][0].image_YXC
        return self.gallery.keep(found_YXC, f"{text or 'image'} {number}" if not image else f"{image} {number}")

    def image_roles(self, text: str, subject: Subject, seen: Probe) -> ImageRoles:
        return image_roles(subject, None, seen)


@dataclass(frozen=True, eq=False)
class QuestionSession(Session):
    """A model that answers questions about images: the text of a request is an image, its target the question."""

    answerer: AnswersImages
    listed: Callable[[], Shelf]
    asked: Callable[[], Sequence[str]]  # questions of the run's own, image by image of the shelf
    task: str
    weights: str

    @property
    def model(self) -> nn.Module:
        found: nn.Module = self.answerer.model
        return found

    @property
    def example(self) -> str:
        return self.gallery.shelf.names[0]

    @cached_property
    def gallery(self) -> Gallery:
        return Gallery(_small, self.listed, "questions")

    @property
    def questions(self) -> Sequence[str]:
        return self.asked()

    def answer(self, text: str) -> str:
        return self.heat(text, self.questions[0])[1][0][0]

    def heat(self, image: str, question: str) -> tuple[Heat, Sequence[tuple[str, float]]]:
        """Return where the model attended as it answered, and the likeliest answers."""
        return self.answerer.heat_of(Image.fromarray(self.gallery.picture(image).read_YXC), question)

    def subject(self, text: str, target: str | None) -> Subject:
        raise UserError(ONLY_RUN)

    def vocabulary(self) -> Vocabulary:
        raise UserError(ONLY_RUN)

    def uses(self, word: str, sentences: Sequence[str]) -> WordUses:
        raise UserError(ONLY_RUN)


def _small(image: Image.Image) -> np.ndarray:
    """Return an image as it is shown; the model makes it as small as it needs."""
    shown = image.convert("RGB")
    shown.thumbnail((SHOWN, SHOWN))
    return np.array(shown)


def questions_of(recipe: Recipe) -> tuple[Callable[[], Shelf], Callable[[], Sequence[str]]]:
    """Return what reads the images that a run is asked about, each once, and what reads their questions."""

    @cache
    def read() -> VisualQuestions:
        return TASKS[recipe.task.name].read_test(recipe)

    def shelf() -> Shelf:
        found, first = read(), dict[int, VisualQuestion]()
        for owner, question in zip(found.owner_Q.tolist(), found.questions):
            first.setdefault(owner, question)
        some = sorted(first)[:LISTED]
        names, labels = [first[n].name for n in some], [f"{first[n].question} {first[n].answer}" for n in some]
        return Shelf(found.images_NYXC[some], names, labels, lambda n: as_image(found.images_NYXC[some[n]]))

    return shelf, lambda: list(dict.fromkeys(question.question for question in read().questions))[:LISTED]
