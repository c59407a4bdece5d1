"""Answers on their way to the page: JSON for small things, raw numbers for matrices, with their shape and type in headers.

What the page may ask, and within which bounds: every field is checked before anything is computed.
"""

from __future__ import annotations

import json
import math
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response


class Json(Response):
    """Plain ASCII, so that half a character in a token cannot break it; a number that is none becomes null."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return json.dumps(tidy(content), allow_nan=False, separators=(",", ":")).encode()


def tidy(content: Any) -> Any:
    """Floats to seven digits, which is all that float32 has."""
    if isinstance(content, float):
        return float(f"{content:.7g}") if math.isfinite(content) else None
    if isinstance(content, dict):
        return {str(key): tidy(value) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [tidy(value) for value in content]
    if isinstance(content, np.ndarray):
        return tidy(content.tolist())
    if isinstance(content, np.generic):
        return tidy(content.item())
    return content


def numbers(array: np.ndarray) -> Response:
    """Little-endian, rows last to first as numpy keeps them."""
    plain = np.ascontiguousarray(array)
    headers = {"x-shape": ",".join(map(str, plain.shape)), "x-type": str(plain.dtype)}
    return Response(plain.tobytes(), media_type="application/octet-stream", headers=headers)


def refusal(status: int, sentence: str) -> Json:
    return Json({"error": sentence}, status_code=status)


Text = Annotated[str, Field(min_length=1, max_length=60_000)]
Name = Annotated[str, Field(min_length=1, max_length=400)]
Step = Annotated[int | None, Field(ge=0, le=10**9)]
Count = Annotated[int, Field(ge=0, le=10**6)]


class Question(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class PassQuestion(Question):
    run: Name
    text: Text
    target: Annotated[str | None, Field(max_length=60_000)] = None
    step: Step = None


class Off(Question):
    """Heads switched off, by the name of their attention."""

    off: Annotated[dict[Name, Annotated[list[Count], Field(max_length=512)]], Field(max_length=512)]


class Grow(Question):
    run: Name
    text: Text
    beam: Annotated[int, Field(ge=1, le=12)] = 4
    forced: Annotated[list[Count], Field(max_length=512)] = []
    word: Annotated[str, Field(max_length=200)] = ""  # to come after those


class Align(Question):
    """A node of the search tree: the tokens up to and with it."""

    run: Name
    text: Text
    tokens: Annotated[list[Count], Field(min_length=1, max_length=512)]


class Uses(Question):
    run: Name
    word: Annotated[str, Field(min_length=1, max_length=200)]
    sentences: Annotated[list[Text], Field(min_length=1, max_length=60)]


class Analogy(Question):
    run: Name
    minus: Annotated[str, Field(min_length=1, max_length=200)]
    base: Annotated[str, Field(min_length=1, max_length=200)]
    plus: Annotated[str, Field(min_length=1, max_length=200)]
