"""The server: static files and the page's questions, behind the guard. Nothing here computes; the work waits in its queues."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from importlib.resources import files
from pathlib import PurePath

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from regard.core.errors import UserError
from regard.studio.gallery import LARGEST
from regard.studio.routes import Json, Studio, explain, images, refusal, runs, series, weights
from regard.studio.security import LOCAL, Door, Guard
from regard.studio.session import RunHandle, Runs
from regard.studio.worker import Full, Stopped

KINDS = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
log = logging.getLogger("regard.studio")


def assets() -> dict[str, tuple[bytes, str]]:
    """Every file of the page, read once: what is not among them does not exist, whatever path a request has."""
    found = {}
    folders = [("", files("regard.studio") / "static")]
    while folders:
        prefix, folder = folders.pop()
        for item in folder.iterdir():
            if item.is_dir():
                folders.append((f"{prefix}{item.name}/", item))
            elif (kind := KINDS.get(PurePath(item.name).suffix)) is not None:
                found[f"{prefix}{item.name}"] = (item.read_bytes(), f"{kind}; charset=utf-8")
    return found


def create(openings: Mapping[str, RunHandle], hosts: frozenset[str] = LOCAL, key: str | None = None) -> Guard:
    studio = Studio(Runs(openings))

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        studio.passes.close()
        studio.reads.close()

    app = FastAPI(
        title="Regard studio", docs_url=None, redoc_url=None, openapi_url="/api/openapi.json", lifespan=lifespan,
        redirect_slashes=False,  # or an answer would repeat the Host that a request was sent with
    )  # fmt: skip
    for name, (body, kind) in assets().items():
        path = "/" if name == "index.html" else f"/static/{name}"
        app.add_api_route(path, partial(_asset, body, kind), include_in_schema=False)
    app.state.studio = studio
    for questions in (runs, images, series, weights, explain):
        app.include_router(questions.router)
    _add_refusals(app)
    return Guard(app, hosts, None if key is None else Door(key), roomy={"/api/image": LARGEST})


async def _asset(body: bytes, kind: str) -> Response:
    return Response(body, media_type=kind)


def _add_refusals(app: FastAPI) -> None:
    """Answer every mistake with one sentence; what was sent is not sent back.

    What a model has not, or a text has not, is an answer too, so that a browser's console is left to what
    is broken.
    """

    @app.exception_handler(UserError)
    async def mendable(_: Request, error: UserError) -> Response:
        return Json({"cannot": str(error)}, headers={"x-cannot": "1"})

    @app.exception_handler(Full)
    async def full(_: Request, error: Full) -> Response:
        answer = refusal(429, str(error))
        answer.headers["retry-after"] = "1"
        return answer

    @app.exception_handler(Stopped)
    async def stopped(_: Request, error: Stopped) -> Response:
        return refusal(503, "studio is being stopped.")

    @app.exception_handler(RequestValidationError)
    async def misshapen(_: Request, error: RequestValidationError) -> Response:
        said = [f"{'.'.join(map(str, one['loc'][1:]))[:80] or 'the body'}: {one['msg']}" for one in error.errors()[:3]]
        return refusal(422, "; ".join(said) + ".")

    @app.exception_handler(HTTPException)
    async def plain(_: Request, error: HTTPException) -> Response:
        return refusal(error.status_code, str(error.detail))

    @app.exception_handler(Exception)
    async def ours(_: Request, error: Exception) -> Response:
        log.exception("a question could not be answered", exc_info=error)
        return refusal(500, f"something in studio itself went wrong ({type(error).__name__}); the terminal tells more.")
