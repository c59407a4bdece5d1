"""The `[data]` sections of tasks with images: labelled ones, ones to draw or to restore, and questions about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from regard.core.config import Bounds, Count, check_bounds
from regard.data.config import All, ValidFraction, check_columns


@dataclass(frozen=True, kw_only=True)
class ImagesConfig:
    """Images, with a label each or without."""

    train: tuple[str, ...] = ()
    valid: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()  # image and label column of CSV, TSV, JSONL and hub data
    images: str = ""  # a folder or a .tar archive with the images that a table names; none: the folder that the table is in
    resize: Literal["crop", "squash"] = "crop"  # how an image becomes square: cut to its middle, or squeezed
    limit: All = 0  # use at most this many training images; 0 is all
    valid_fraction: ValidFraction = 0.0  # where there is no valid: this share of train, picked at random, is used for it

    def __post_init__(self) -> None:
        check_bounds(self, "data.")
        check_columns(self.columns, "image,label")


@dataclass(frozen=True, kw_only=True)
class VisualQuestionsConfig:
    """Images with questions and answers."""

    train: tuple[str, ...] = ()
    valid: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()  # image, question and answer, and perhaps the kind of question
    images: str = ""  # a folder or a .tar archive with the images; none: the folder that the questions are in
    maximum_question: Count = 64  # tokens; a longer question is cut, and counted
    most_answers: Annotated[int, Bounds(2)] = (
        3000  # classes: the most frequent answers of train; other questions are not learned from
    )
    n_best: Count = 3  # answers to each question that `regard predict --json` gives, the best first
    limit: All = 0  # use at most this many training questions; 0 is all
    valid_fraction: ValidFraction = 0.0  # where there is no valid: this share of train, picked at random, is used for it

    def __post_init__(self) -> None:
        check_bounds(self, "data.")
        check_columns(self.columns, "image,question,answer", "image,question,answer,kind")


@dataclass(frozen=True, kw_only=True)
class DrawingConfig(ImagesConfig):
    """Images for a model that draws."""

    keep: Annotated[float, Bounds(0, 1, above=True, below=True, example="0.5")] = 0.5
    """The share of an image's rows that stay, from the top, when `regard predict` completes it."""


@dataclass(frozen=True, kw_only=True)
class MaskedImagesConfig(ImagesConfig):
    """Images without labels, and how those to train on are changed."""

    flip: bool = False  # left and right, of every second image
    crop: Annotated[int, Bounds(0, zero="off")] = 0  # pixels that an image is moved by at most; edges mirror
