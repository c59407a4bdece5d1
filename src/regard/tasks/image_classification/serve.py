"""`/v1/images/classify`: labels of images with their probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.runs.routes import AnswerRoute
from regard.tasks.bodies import (
    PIXEL,
    Body,
    Drawn,
    Model,
    Picture,
    Pictures,
    Reply,
    Weights,
    listed,
    open_picture,
    subject_weights,
)
from regard.tasks.classification.predict import probabilities

if TYPE_CHECKING:
    from regard.tasks.image_classification.predict import ImageClassifier


class ClassifyImagesBody(Body):
    model: Model = None
    image: Picture | Pictures
    attention: Drawn = False


class ClassifiedImage(Reply):
    label: str
    probabilities: dict[str, float]


class ClassifyImagesReply(Reply):
    model: str
    results: list[ClassifiedImage]
    attention: list[Weights] | None = None


def routes(predictor: ImageClassifier) -> list[AnswerRoute]:
    return [
        AnswerRoute(
            path="/images/classify",
            title="Labels of images",
            body=ClassifyImagesBody,
            answer=ClassifyImagesReply,
            example={"image": PIXEL},
            inputs=lambda predictor, body: [predictor.pixels(open_picture(image)) for image in listed(body.image)],
            batch=classify,
            length=lambda image_YXC: image_YXC.shape[0] * image_YXC.shape[1],
            outputs=lambda predictor, body, found: {"results": list(found)},
            attention=lambda predictor, image_YXC: subject_weights(predictor.image_subject(image_YXC, "the image")),
        )
    ]


def classify(predictor: ImageClassifier, images: Sequence[np.ndarray]) -> list[dict[str, Any]]:
    names = predictor.labels.names
    return [
        {"label": names[int(row.argmax())], "probabilities": dict(zip(names, map(float, row)))}
        for row in probabilities(predictor.scores(np.stack(images)))
    ]
