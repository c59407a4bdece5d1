"""`/v1/fill`: texts restored by a model that writes, each blank by any number of words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from regard.core.errors import UserError
from regard.runs.routes import AnswerRoute
from regard.tasks.bodies import listed, must_have_words, read_attention
from regard.tasks.masked_lm.serve import FillBody, FillReply

if TYPE_CHECKING:
    from regard.tasks.seq2seq_denoising.predict import Restorer


def routes(predictor: Restorer) -> list[AnswerRoute]:
    return [
        AnswerRoute(
            path="/fill",
            title="Words for the blanks of texts",
            body=FillBody,
            answer=FillReply,
            example={"text": predictor.example},
            inputs=inputs,
            batch=restore,
            length=len,
            outputs=lambda predictor, body, found: {"results": list(found)},
            attention=read_attention,
        )
    ]


def inputs(predictor: Restorer, body: FillBody) -> list[str]:
    if body.top is not None:
        raise UserError("this model writes one text and ranks no words, so top does nothing; leave it out.")
    return [must_have_words(text) for text in listed(body.text)]


def restore(predictor: Restorer, texts: Sequence[str]) -> list[dict[str, Any]]:
    return [{"filled": outputs[0].text, "blanks": []} for outputs in predictor.restore(texts)]
