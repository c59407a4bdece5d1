"""`/v1/reply`: a reply to the last turn of a conversation, written by the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.core.errors import UserError
from regard.data.sources.dialogues import as_typed
from regard.runs.routes import WriteRoute
from regard.tasks.bodies import Texts, WriteBody, WriteReply, written_attention

if TYPE_CHECKING:
    from regard.tasks.dialogue.predict import Responder


EXAMPLE = {"turns": ["hello", "hello , how are you ?"]}


class ReplyBody(WriteBody):
    turns: Texts


def routes(predictor: Responder) -> list[WriteRoute]:
    return [
        WriteRoute(
            path="/reply",
            title="Replies to the last turn of a conversation",
            body=ReplyBody,
            answer=WriteReply,
            example=EXAMPLE,
            sources=lambda predictor, body: [predictor.read(turns_of(body))],
            attention=lambda predictor, text: written_attention(predictor.translator, text),
        )
    ]


def turns_of(body: ReplyBody) -> tuple[str, ...]:
    """Return the turns without what separates them in a file, which would make one turn two."""
    for turn in body.turns:
        if len(as_typed(turn)) != 1:
            raise UserError(
                f"the turn {turn[:40]!r} is {'empty' if not as_typed(turn) else 'several'}; give each turn by itself."
            )
    return tuple(turn for each in body.turns for turn in as_typed(each))
