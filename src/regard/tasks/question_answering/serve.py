"""`/v1/answer`: the span of a text that answers a question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from regard.runs.routes import AnswerRoute
from regard.tasks.bodies import Body, Drawn, Model, Reply, Text, Weights, must_have_words, read_attention

if TYPE_CHECKING:
    from regard.tasks.question_answering.predict import QuestionAnswerer


class AnswerBody(Body):
    model: Model = None
    question: Text
    context: Text
    top: Annotated[int | None, Field(ge=1, le=100, description="answers; at most data.n_best of the run")] = None
    attention: Drawn = False


class Found(Reply):
    """text is context[start:end], counted in characters; empty where there is no answer."""

    text: str
    start: int
    end: int
    score: float
    probability: float


class AnswerReply(Reply):
    model: str
    answers: list[Found]
    attention: list[Weights] | None = None


def routes(predictor: QuestionAnswerer) -> list[AnswerRoute]:
    return [
        AnswerRoute(
            path="/answer",
            title="The words of a text that answer a question",
            body=AnswerBody,
            answer=AnswerReply,
            example=dict(zip(("question", "context"), predictor.example.split("\t"))),
            inputs=lambda predictor, body: [
                (must_have_words(body.question, "question"), must_have_words(body.context, "context"))
            ],
            batch=answer,
            length=lambda pair: len(pair[0]) + len(pair[1]),
            outputs=lambda predictor, body, found: {"answers": list(found[0])[: body.top]},
            attention=lambda predictor, pair: read_attention(predictor, "\t".join(pair)),
        )
    ]


def answer(predictor: QuestionAnswerer, asked: Sequence[tuple[str, str]]) -> list[list[dict[str, Any]]]:
    return [[one._asdict() for one in found] for found in predictor.answer(asked)]
