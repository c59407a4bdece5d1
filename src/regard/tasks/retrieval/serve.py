"""`/v1/reply`: the nearest of the replies of the training data. What belongs to models that write is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from regard.core.errors import UserError
from regard.runs.routes import AnswerRoute
from regard.tasks.bodies import WriteReply
from regard.tasks.dialogue.serve import EXAMPLE, ReplyBody, turns_of

if TYPE_CHECKING:
    from regard.tasks.retrieval.predict import Retriever

TAKES = {"model", "turns", "n"}


class Asked(NamedTuple):
    turns: tuple[str, ...]
    most: int


def routes(predictor: Retriever) -> list[AnswerRoute]:
    return [
        AnswerRoute(
            path="/reply",
            title="Replies to the last turn of a conversation",
            body=ReplyBody,
            answer=WriteReply,
            example=EXAMPLE,
            inputs=inputs,
            batch=nearest,
            length=lambda asked: sum(map(len, asked.turns)),
            outputs=lambda predictor, body, found: {"outputs": list(found)},
        )
    ]


def inputs(predictor: Retriever, body: ReplyBody) -> list[Asked]:
    if extra := sorted(body.model_fields_set - TAKES):
        raise UserError(f"this model finds replies and writes none, so {extra[0]} does nothing; leave it out.")
    return [Asked(turns_of(body), body.n)]


def nearest(predictor: Retriever, rows: Sequence[Asked]) -> list[list[dict[str, Any]]]:
    found = predictor.nearest([asked.turns for asked in rows], max(asked.most for asked in rows))
    return [
        [{"text": one.reply, "score": one.cosine, "finish_reason": "stop"} for one in best[: asked.most]]
        for asked, best in zip(rows, found)
    ]
