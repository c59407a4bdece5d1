"""Parts that bodies of requests to `regard serve` share: texts, images, attention weights.

Nothing of a request is a place: an image is the base64 of a file's content, and a text is only ever a text.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from regard.core.errors import UserError
from regard.data.sources.images import decode_image
from regard.lens.alignment import Alignment
from regard.lens.analyses.weights import Choice, attention_weights
from regard.lens.subject import Subject

if TYPE_CHECKING:
    from PIL import Image

    from regard.lens.analyses.image_heat import Heat

MOST_TEXTS = 1024
LONGEST = 1_000_000  # characters; `regard serve --limit characters` is lower
LARGEST = 64 * 2**20  # characters of an image in base64
PIXELS = 16_000_000
LONGEST_DRAWN = 2_000  # characters of a text whose attention weights are asked for
MOST_WEIGHTS = 2**20
DATA_URI = "data:image/"

Text = Annotated[str, Field(min_length=1, max_length=LONGEST)]
Texts = Annotated[list[Text], Field(min_length=1, max_length=MOST_TEXTS)]
Picture = Annotated[str, Field(min_length=1, max_length=LARGEST, description="a PNG, JPEG, GIF, WEBP, BMP or PPM file in base64")]
Pictures = Annotated[list[Picture], Field(min_length=1, max_length=MOST_TEXTS)]
Model = Annotated[str | None, Field(max_length=400, description="which model answers; needed where several could")]
Drawn = Annotated[bool, Field(description="return attention weights beside the answer")]

PIXEL = (  # a grey square of 8 x 8 pixels, for the examples
    "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAAAAADhZOFXAAAAEElEQVR42mNsYIAAJgaKGAAmCACQtTEKkQAAAABJRU5ErkJggg=="
)


class Body(BaseModel):
    """A request: unknown fields and values of other types are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Reply(BaseModel):
    """An answer."""

    model_config = ConfigDict(extra="forbid")


class Weights(Reply):
    """Attention of every layer and head, from queries to keys."""

    queries: list[str]
    keys: list[str]
    layers: list[str]
    weights: list[list[list[list[float]]]] = Field(description="layers, heads, queries, keys")


class Maps(Reply):
    """Attention of words to the cells of an image: the mean over heads and layers."""

    words: list[str]
    layers: list[str]
    maps: list[list[list[float]]] = Field(description="words, rows of cells, columns of cells")


class WriteBody(Body):
    """Fields of all requests for a text that is written."""

    model: Model = None
    max_tokens: Annotated[int | None, Field(ge=1, le=1_000_000)] = None
    n: Annotated[int, Field(ge=1, le=128, description="texts for each input: samples, or the best of a beam")] = 1
    beam: Annotated[int | None, Field(ge=1, le=64, description="width of a beam search; 1 is greedy")] = None
    length_penalty: Annotated[float | None, Field(ge=0, le=10, allow_inf_nan=False, description="of a beam search")] = None
    temperature: Annotated[float | None, Field(ge=0, le=100, allow_inf_nan=False, description="samples; 0 is greedy")] = None
    top_p: Annotated[float | None, Field(gt=0, le=1, allow_inf_nan=False)] = None
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    attention: Drawn = False


class Written(Reply):
    text: str
    score: float = Field(description="what a search ranks by: the log-probability, by length where the settings say so")
    logprob: float | None = None
    finish_reason: str = Field(description="stop: it ended by itself; length: it was cut")


class Usage(Reply):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class WriteReply(Reply):
    model: str
    outputs: list[list[Written]] = Field(description="the texts for each input, best first")
    usage: Usage | None = None
    attention: list[Weights | Maps] | None = None


def listed(given: str | Sequence[str]) -> list[str]:
    """Return one text or several as a list."""
    return [given] if isinstance(given, str) else list(given)


def must_have_words(text: str, what: str = "text") -> str:
    """Return a text that is more than white space."""
    if not text.strip():
        raise UserError(f"the {what} is empty; give one with words in it.")
    return text


def open_picture(encoded: str) -> Image.Image:
    """Return the image of a base64 text. Names of files and addresses are not base64, and are never opened."""
    content = encoded
    if encoded.startswith(DATA_URI):
        kind, comma, content = encoded.partition(",")
        if not (comma and kind.endswith(";base64")):
            raise UserError("the image begins with data:image/ but is not in base64; write data:image/png;base64, before it.")
    try:
        raw = base64.b64decode(content, validate=True)
    except (binascii.Error, ValueError):
        raise UserError(
            "the image is not base64; send the content of an image file in base64, not its name or its address."
        ) from None
    return decode_image(raw, "the image", PIXELS)


def must_be_short(text: str) -> str:
    """Refuse a text whose weights would be more than an answer can hold: they grow with the square of its length."""
    if len(text) > LONGEST_DRAWN:
        raise UserError(
            f"the text has {len(text):,} characters, and attention is returned for {LONGEST_DRAWN:,} at most; shorten it, or "
            "leave attention out."
        )
    return text


def weights_of(alignment: Alignment) -> dict[str, Any]:
    if alignment.weights.size > MOST_WEIGHTS:
        raise UserError(
            f"these are {alignment.weights.size:,} attention weights, and an answer holds {MOST_WEIGHTS:,}; shorten the text, or "
            "leave attention out."
        )
    names = {"queries": list(alignment.queries), "keys": list(alignment.keys), "layers": list(alignment.layers)}
    return {**names, "weights": alignment.weights.tolist()}


def subject_weights(subject: Subject) -> dict[str, Any]:
    return weights_of(attention_weights(subject, Choice()).alignment)


def heat_maps(heat: Heat) -> dict[str, Any]:
    return {"words": list(heat.words), "layers": list(heat.layers), "maps": heat.maps_LYX.tolist()}


def read_attention(predictor: Any, text: str) -> dict[str, Any]:
    """Return the weights of a model that reads a text, as `regard lens` shows them."""
    return subject_weights(predictor.subject(must_be_short(text)))


def written_attention(predictor: Any, text: str) -> dict[str, Any]:
    """Return the weights of a model that writes: what each token of its output attended to."""
    _, alignment = predictor.attention(must_be_short(text))
    return weights_of(alignment)
