"""`/v1/fill`: the likeliest words for the blanks of texts; of a discriminator `/v1/judge`, how likely each word was replaced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from pydantic import Field

from regard.core.errors import UserError
from regard.runs.routes import AnswerRoute
from regard.tasks.bodies import Body, Drawn, Model, Reply, Text, Texts, Weights, listed, must_have_words, read_attention
from regard.text.tokenizer import TYPED

if TYPE_CHECKING:
    from regard.tasks.masked_lm.predict import FillMask, ReplacedTokenDetector

MOST, TOP = 100, 5  # words for a blank


class FillBody(Body):
    model: Model = None
    text: Text | Texts
    top: Annotated[int | None, Field(ge=1, le=MOST, description="words for each blank; 5 where it is left out")] = None
    attention: Drawn = False


class Guess(Reply):
    word: str
    probability: float


class Filled(Reply):
    filled: str
    blanks: list[list[Guess]] = Field(description="the likeliest words of each blank; none of a model that writes the text")


class FillReply(Reply):
    model: str
    results: list[Filled]
    attention: list[Weights] | None = None


class Blank(NamedTuple):
    text: str
    top: int


def filling_routes(predictor: FillMask) -> list[AnswerRoute]:
    return [
        AnswerRoute(
            path="/fill",
            title="Words for the blanks of texts",
            body=FillBody,
            answer=FillReply,
            example={"text": predictor.example},
            inputs=lambda predictor, body: [Blank(must_have_blanks(text), body.top or TOP) for text in listed(body.text)],
            batch=fill,
            length=lambda blank: len(blank.text),
            outputs=lambda predictor, body, found: {"results": list(found)},
            attention=lambda predictor, blank: read_attention(predictor, blank.text),
        )
    ]


def must_have_blanks(text: str) -> str:
    """Return a text with blanks as people type them."""
    if not TYPED.search(must_have_words(text)):
        raise UserError(f"{text[:40]!r} has no blank to fill in; write [MASK] in place of a word.")
    return text


def fill(predictor: FillMask, blanks: Sequence[Blank]) -> list[dict[str, Any]]:
    found = predictor.fill([blank.text for blank in blanks], max(blank.top for blank in blanks))
    return [
        {"filled": one.text, "blanks": [[guess._asdict() for guess in guesses[: blank.top]] for guesses in one.blanks]}
        for blank, one in zip(blanks, found)
    ]


class JudgeBody(Body):
    model: Model = None
    text: Text | Texts
    attention: Drawn = False


class Judged(Reply):
    words: list[Guess] = Field(description="every word, and how likely it is not the text's own")


class JudgeReply(Reply):
    model: str
    results: list[Judged]
    attention: list[Weights] | None = None


def judging_routes(predictor: ReplacedTokenDetector) -> list[AnswerRoute]:
    return [
        AnswerRoute(
            path="/judge",
            title="Words that may have been replaced",
            body=JudgeBody,
            answer=JudgeReply,
            example={"text": predictor.example},
            inputs=lambda predictor, body: [must_have_words(text) for text in listed(body.text)],
            batch=judge,
            length=len,
            outputs=lambda predictor, body, found: {"results": list(found)},
            attention=read_attention,
        )
    ]


def judge(predictor: ReplacedTokenDetector, texts: Sequence[str]) -> list[dict[str, Any]]:
    return [{"words": [suspect._asdict() for suspect in suspects]} for suspects in predictor.judge(texts)]
