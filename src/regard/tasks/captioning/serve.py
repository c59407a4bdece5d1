"""`/v1/caption`: a sentence about each image."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.runs.routes import WriteRoute
from regard.tasks.bodies import PIXEL, Picture, Pictures, WriteBody, WriteReply, heat_maps, listed, open_picture

if TYPE_CHECKING:
    from regard.tasks.captioning.predict import CaptionGenerator


class CaptionBody(WriteBody):
    image: Picture | Pictures


def routes(predictor: CaptionGenerator) -> list[WriteRoute]:
    return [
        WriteRoute(
            path="/caption",
            title="Captions of images",
            body=CaptionBody,
            answer=WriteReply,
            example={"image": PIXEL, "max_tokens": 12},
            sources=lambda predictor, body: [open_picture(image) for image in listed(body.image)],
            attention=lambda predictor, picture: heat_maps(predictor.heat_of(picture)),
        )
    ]
