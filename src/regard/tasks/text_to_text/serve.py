"""`/v1/summarize`: what a text-to-text model was trained to write, such as summaries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.runs.routes import WriteRoute
from regard.tasks.bodies import Text, Texts, WriteBody, WriteReply, listed, must_have_words, written_attention

if TYPE_CHECKING:
    from regard.tasks.text_to_text.predict import TextWriter


class SummarizeBody(WriteBody):
    text: Text | Texts


def routes(predictor: TextWriter) -> list[WriteRoute]:
    return [
        WriteRoute(
            path="/summarize",
            title="What a text-to-text model writes, such as summaries",
            body=SummarizeBody,
            answer=WriteReply,
            example={"text": example(predictor), "max_tokens": 20},
            sources=lambda predictor, body: [must_have_words(text) for text in listed(body.text)],
            attention=written_attention,
        )
    ]


def example(predictor: TextWriter) -> str:
    """Return a text that says what to do with it, if the model has several prefixes."""
    return " ".join([*predictor.recipe.data.prefixes[:1], predictor.example])
