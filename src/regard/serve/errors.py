"""Errors as JSON in the shape that clients of OpenAI's API expect: one sentence, a type, the field and a code."""

from __future__ import annotations

import json
import logging
import math
import re
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import Response

from regard.core.errors import UserError
from regard.core.terminal import quoted
from regard.serve.work import Busy, Cancelled, Closing, DeadlinePassed

LONGEST = 400  # characters of a sentence
NAME = re.compile("[a-z_]{1,40}")  # of a field; other parts of a place name the forms it may have
FIELDS = {"decode.maximum_length": "max_tokens", "decode.n_best": "n", "decode.samples": "n"}
SLIDING = re.compile(r", or set decode\.sliding_window=true[^.;]*")
CLIENT_GONE = 499  # the client closed the connection; it is only logged
log = logging.getLogger("regard.serve")


class ErrorBody(BaseModel):
    message: str
    type: str
    param: str | None = None
    code: str | None = None


class ErrorReply(BaseModel):
    error: ErrorBody


class Refused(UserError):
    """A request that is refused with a status and a code of its own."""

    def __init__(self, sentence: str, *, status: int = 400, code: str | None = None, param: str | None = None) -> None:
        super().__init__(sentence)
        self.status, self.code, self.param = status, code, param


class ClientGone(Exception):
    """The client has closed the connection and needs no answer."""


class Json(Response):
    """JSON in which half a character, which UTF-8 cannot have, becomes a question mark."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return encode(content)


def encode(content: Any) -> bytes:
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8", "replace")


KINDS = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}


def error_content(status: int, sentence: str, code: str | None = None, param: str | None = None) -> dict[str, Any]:
    kind = KINDS.get(status, "invalid_request_error" if status < 500 else "server_error")
    return {"error": {"message": quoted(sentence, LONGEST), "type": kind, "param": param, "code": code}}


def refusal(error: UserError) -> tuple[int, dict[str, Any], dict[str, str]]:
    """Return status, content and headers of the answer to an error that has a sentence."""
    if of_server(error):
        return failure(error)
    status, headers = 400, dict[str, str]()
    code: str | None = None
    param: str | None = None
    if isinstance(error, Refused):
        status, code, param = error.status, error.code, error.param
    elif isinstance(error, Busy):
        status, code, headers = 429, "queue_full", {"retry-after": str(max(1, math.ceil(error.retry_after)))}
    elif isinstance(error, Closing):
        status, code, headers = 503, "closing", {"retry-after": "5"}
    elif isinstance(error, DeadlinePassed):
        status, code = 504, "timeout"
    elif isinstance(error, Cancelled):
        status, code = CLIENT_GONE, "cancelled"
    return status, error_content(status, for_request(str(error)), code, param), headers


def for_request(sentence: str) -> str:
    """Return a sentence about settings of [decode] as one about fields of a request, which cannot set all of them."""
    for setting, field in FIELDS.items():
        sentence = sentence.replace(setting, field)
    return SLIDING.sub("", sentence).replace("decode.", "")


def of_server(error: Exception) -> bool:
    """Return whether the engine gave a sentence to an error that is not a mistake in the request."""
    return type(error) is UserError and error.__cause__ is not None and not isinstance(error.__cause__, UserError)


def failure(error: Exception) -> tuple[int, dict[str, Any], dict[str, str]]:
    """Return the same of any error. One without a sentence is the server's own, and is logged."""
    if isinstance(error, UserError) and not of_server(error):
        return refusal(error)
    log.error("a request could not be answered", exc_info=error)
    return (
        500,
        error_content(500, f"the server itself failed ({type(error.__cause__ or error).__name__}); its log says more."),
        {},
    )


SENTENCES = {
    "missing": "is missing; a request here needs it.",
    "extra_forbidden": "is not known here; leave it out.",
    "string_type": "must be a text, in quotes.",
    "string_unicode": "has half a character, which is no Unicode text; correct it.",
    "string_too_short": "is empty; give at least {min_length} character.",
    "string_too_long": "has more than the {max_length:,} characters it may have; shorten it.",
    "int_type": "must be a whole number.",
    "int_from_float": "must be a whole number.",
    "float_type": "must be a number.",
    "bool_type": "must be true or false.",
    "list_type": "must be a list, in brackets.",
    "dict_type": "must be an object, in braces.",
    "model_type": "must be an object, in braces.",
    "model_attributes_type": "must be an object, in braces.",
    "too_short": "has {actual_length} entries, and at least {min_length} is needed.",
    "too_long": "has more than the {max_length:,} entries it may have; send several requests.",
    "greater_than": "must be more than {gt:,}.",
    "greater_than_equal": "must be at least {ge:,}.",
    "less_than": "must be less than {lt:,}.",
    "less_than_equal": "must be at most {le:,}.",
    "finite_number": "must be a finite number.",
    "literal_error": "must be {expected}.",
    "recursion_loop": "is nested too deeply.",
}
"""The expected value of a field, by pydantic's kind of error."""


def misshapen(error: RequestValidationError) -> Json:
    """Name one field that is wrong, and what it should be. Of the forms that a field may have, the nearest one counts."""
    errors: list[Any] = list(error.errors())
    worst = max(errors, key=lambda one: (not str(one["type"]).endswith("_type"), len(one["loc"])))
    context = worst.get("ctx") or {}
    if worst["type"] == "json_invalid":
        reason = str(context.get("error", "it ends too early"))
        return Json(error_content(400, f"the body is not JSON ({reason}); send a JSON object.", "invalid_json"), 400)
    place = [str(part) for part in worst["loc"][1:] if isinstance(part, int) or NAME.fullmatch(part)]
    field = quoted(".".join(place), 80) or None
    sentence = SENTENCES.get(worst["type"], "cannot be read.").format(**context)
    return Json(error_content(400, f"{field or 'the body'} {sentence}", "invalid_field", field), 400)


def add_refusals(app: FastAPI) -> None:
    """Answer every mistake with one sentence. What was sent is not sent back."""

    @app.exception_handler(UserError)
    async def mistake(_: Request, error: UserError) -> Response:
        status, content, headers = refusal(error)
        return Json(content, status, headers)

    @app.exception_handler(ClientGone)
    async def gone(_: Request, error: ClientGone) -> Response:
        return Response(status_code=CLIENT_GONE)

    @app.exception_handler(RequestValidationError)
    async def wrong_body(_: Request, error: RequestValidationError) -> Response:
        return misshapen(error)

    @app.exception_handler(HTTPException)
    async def plain(request: Request, error: HTTPException) -> Response:
        sentence = {
            400: "the body is not JSON that can be read: it is nested too deeply, or has a number that is too long.",
            404: "there is nothing at this address; GET /v1/models lists the models and the routes of each.",
            405: f"{request.method} is not for this address; see /openapi.json.",
        }.get(error.status_code, str(error.detail))
        headers = dict(error.headers or {})
        return Json(error_content(error.status_code, sentence), error.status_code, headers)

    @app.exception_handler(Exception)
    async def ours(_: Request, error: Exception) -> Response:
        status, content, headers = failure(error)
        return Json(content, status, headers)
