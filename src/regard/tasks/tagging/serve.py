"""`/v1/tag`: the entities of texts and the tag of every word, with where they stand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from regard.runs.routes import AnswerRoute
from regard.tasks.bodies import Body, Drawn, Model, Reply, Text, Texts, Weights, listed, must_have_words, read_attention

if TYPE_CHECKING:
    from regard.tasks.tagging.predict import Tagger


class TagBody(Body):
    model: Model = None
    text: Text | Texts
    attention: Drawn = False


class EntityReply(Reply):
    """text[start:end] of a text, counted in characters."""

    start: int
    end: int
    type: str
    text: str
    probability: float


class WordReply(Reply):
    start: int
    end: int
    text: str
    tag: str
    probability: float


class Tagged(Reply):
    entities: list[EntityReply]
    words: list[WordReply]


class TagReply(Reply):
    model: str
    results: list[Tagged]
    attention: list[Weights] | None = None


def routes(predictor: Tagger) -> list[AnswerRoute]:
    return [
        AnswerRoute(
            path="/tag",
            title="Entities of texts and tags of words",
            body=TagBody,
            answer=TagReply,
            example={"text": predictor.example},
            inputs=lambda predictor, body: [must_have_words(text) for text in listed(body.text)],
            batch=tag,
            length=len,
            outputs=lambda predictor, body, found: {"results": list(found)},
            attention=read_attention,
        )
    ]


def tag(predictor: Tagger, texts: Sequence[str]) -> list[dict[str, Any]]:
    return [{part: [one._asdict() for one in rows] for part, rows in found._asdict().items()} for found in predictor.tag(texts)]
