"""`/v1/classify`: labels of texts or of pairs of texts with their probabilities, or a number each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from regard.core.errors import UserError
from regard.runs.routes import AnswerRoute
from regard.tasks.bodies import Body, Drawn, Model, Reply, Text, Texts, Weights, listed, must_have_words, read_attention

if TYPE_CHECKING:
    from regard.tasks.classification.predict import Regressor, TextClassifier, TextScorer
    from regard.tasks.classification.reader import Parts


class ClassifyBody(Body):
    model: Model = None
    text: Text | Texts
    pair: Text | Texts | None = None  # the second texts, for a model of pairs
    attention: Drawn = False


class Classified(Reply):
    label: str | None = None
    probabilities: dict[str, float] | None = None
    number: float | None = None  # of a model that gives texts a number


class ClassifyReply(Reply):
    model: str
    results: list[Classified]
    attention: list[Weights] | None = None


def routes(predictor: TextScorer) -> list[AnswerRoute]:
    batch = labels if hasattr(predictor, "classify") else numbers
    return [
        AnswerRoute(
            path="/classify",
            title="Labels of texts, or numbers",
            body=ClassifyBody,
            answer=ClassifyReply,
            example=example(predictor),
            inputs=inputs,
            batch=batch,
            length=lambda parts: sum(map(len, parts)),
            outputs=lambda predictor, body, found: {"results": list(found)},
            attention=lambda predictor, parts: read_attention(predictor, "\t".join(parts)),
        )
    ]


def inputs(predictor: TextScorer, body: ClassifyBody) -> list[Parts]:
    texts = [must_have_words(text) for text in listed(body.text)]
    if body.pair is None:
        found: list[Parts] = [(text,) for text in texts]
    else:
        pairs = [must_have_words(text, "pair") for text in listed(body.pair)]
        if len(pairs) != len(texts):
            raise UserError(f"there are {len(texts)} texts and {len(pairs)} pairs; give the second text of each.")
        found = list(zip(texts, pairs))
    if (expected := predictor.texts) and len(found[0]) != expected:
        wanted = "pairs of texts, so give the second of each in 'pair'" if expected == 2 else "single texts, so leave 'pair' out"
        raise UserError(f"this model was trained on {wanted}.")
    return found


def labels(predictor: TextClassifier, rows: Sequence[Parts]) -> list[dict[str, Any]]:
    return [answer._asdict() for answer in predictor.classify(rows)]


def numbers(predictor: Regressor, rows: Sequence[Parts]) -> list[dict[str, Any]]:
    return [{"number": number} for number in predictor.rate(rows)]


def example(predictor: TextScorer) -> dict[str, Any]:
    text, _, pair = predictor.example.partition("\t")
    return {"text": text, "pair": pair} if pair else {"text": [text, "nobody came"]}
