"""`/v1/translate`: texts in another language."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.runs.routes import WriteRoute
from regard.tasks.bodies import Text, Texts, WriteBody, WriteReply, listed, must_have_words, written_attention

if TYPE_CHECKING:
    from regard.tasks.translation.predict import Translator


class TranslateBody(WriteBody):
    text: Text | Texts


def routes(predictor: Translator) -> list[WriteRoute]:
    return [
        WriteRoute(
            path="/translate",
            title="Translations of texts",
            body=TranslateBody,
            answer=WriteReply,
            example={"text": predictor.example, "max_tokens": 20},
            sources=lambda predictor, body: [must_have_words(text) for text in listed(body.text)],
            attention=written_attention,
        )
    ]
