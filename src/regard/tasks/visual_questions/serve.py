"""`/v1/images/answer`: answers to a question about an image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from regard.runs.routes import AnswerRoute
from regard.tasks.bodies import PIXEL, Body, Drawn, Maps, Model, Picture, Reply, Text, heat_maps, must_have_words, open_picture

if TYPE_CHECKING:
    from PIL import Image

    from regard.tasks.visual_questions.predict import VisualAnswerer

Asked = tuple["Image.Image", str]


class AnswerImageBody(Body):
    model: Model = None
    image: Picture
    question: Text
    attention: Drawn = False


class ImageAnswer(Reply):
    answer: str
    probability: float


class AnswerImageReply(Reply):
    model: str
    answers: list[ImageAnswer]
    attention: list[Maps] | None = None


def routes(predictor: VisualAnswerer) -> list[AnswerRoute]:
    return [
        AnswerRoute(
            path="/images/answer",
            title="Answers to questions about images",
            body=AnswerImageBody,
            answer=AnswerImageReply,
            example={"image": PIXEL, "question": "what colour is the circle?"},
            inputs=lambda predictor, body: [(open_picture(body.image), must_have_words(body.question, "question"))],
            batch=answer,
            length=lambda pair: len(pair[1]),
            outputs=lambda predictor, body, found: {"answers": found[0]},
            attention=lambda predictor, pair: heat_maps(predictor.heat_of(pair[0].copy(), pair[1])[0]),
        )
    ]


def answer(predictor: VisualAnswerer, asked: Sequence[Asked]) -> list[list[dict[str, Any]]]:
    """One pass for each: the probe that the answers come with keeps a single pass."""
    return [[one._asdict() for one in predictor.heat_of(picture.copy(), question)[1]] for picture, question in asked]
