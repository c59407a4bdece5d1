"""The page's questions: which there are, within which bounds, where they are computed, and in which form they are answered.

Small things are answered as JSON; matrices as raw numbers, with their shape and type in headers. Every field of a question is
checked before anything is computed.
"""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response

from regard.studio.passes import ModelPass, PassCache
from regard.studio.session import Runs
from regard.studio.worker import Work

FORGOTTEN = "this look is no longer kept; ask for it again."


@dataclass
class Studio:
    """State that all questions share: runs, cached passes, queues of work."""

    runs: Runs
    cache: PassCache = field(default_factory=PassCache)
    passes: Work = field(default_factory=lambda: Work("a pass through the model", threads=2, most=24))
    reads: Work = field(default_factory=lambda: Work("weights", threads=2, most=64))


Answer = TypeVar("Answer", bound=Callable[..., Any])


class Questions(APIRouter):
    """The questions of a module, to be included in the application."""

    def ask(self, path: str, queue: Literal["passes", "reads"], method: str = "GET") -> Callable[[Answer], Answer]:
        """Answer a path by what a function returns, computed in a queue: numpy arrays as numbers, anything else as JSON.

        The function's first parameter is the studio; the others are the fields of the question.
        """

        def add(answer: Answer) -> Answer:
            async def answered(request: Request, **given: Any) -> Response:
                studio: Studio = request.app.state.studio
                found = await getattr(studio, queue).do(partial(answer, studio, **given))
                return numbers(found) if isinstance(found, np.ndarray) else Json(found)

            own = inspect.signature(answer, eval_str=True)
            request = inspect.Parameter("request", inspect.Parameter.KEYWORD_ONLY, annotation=Request)
            fields = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in list(own.parameters.values())[1:]]
            answered.__signature__ = inspect.Signature([request, *fields], return_annotation=Response)  # type: ignore[attr-defined]
            self.add_api_route(path, answered, methods=[method], name=answer.__name__)
            return answer

        return add


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


class Asked(Question):
    """A question about an image."""

    run: Name
    image: Name
    question: Annotated[str, Field(min_length=1, max_length=2_000)]


class Uses(Question):
    run: Name
    word: Annotated[str, Field(min_length=1, max_length=200)]
    sentences: Annotated[list[Text], Field(min_length=1, max_length=60)]


class Analogy(Question):
    run: Name
    minus: Annotated[str, Field(min_length=1, max_length=200)]
    base: Annotated[str, Field(min_length=1, max_length=200)]
    plus: Annotated[str, Field(min_length=1, max_length=200)]


Id = Annotated[str, Query(pattern="^[0-9a-f]{20}$")]


def kept(studio: Studio, id: str) -> ModelPass:
    """Return a pass that was made before."""
    if (found := studio.cache.get(id)) is None:
        raise HTTPException(410, FORGOTTEN)
    return found


async def _look(request: Request, id: Id) -> ModelPass:
    return kept(request.app.state.studio, id)


Look = Annotated[ModelPass, Depends(_look)]
"""The pass that a question is about, by its `id`."""
