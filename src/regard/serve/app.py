"""The application: OpenAI's routes, the routes that tasks declare, health and metrics, behind guard and journal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from starlette.responses import Response

from regard import __version__
from regard.serve import completions, embeddings
from regard.serve.bridge import Api, api_of
from regard.serve.errors import ErrorReply, Json, Refused, add_refusals, error_content
from regard.serve.guard import Guard
from regard.serve.journal import Journal, record_of, write_line
from regard.serve.keys import Keys
from regard.serve.limits import Limits
from regard.serve.metrics import Metrics
from regard.serve.models import CHAT, COMPLETIONS, EMBEDDINGS, Models, ServedModel
from regard.serve.native import router_of
from regard.serve.openai_bodies import ModelReply, ModelsReply

PREFIX = "/v1"
HELLO = "hello"  # in the examples
MINE = 1.0  # seconds between two looks at the engines' numbers, where several processes share a page of metrics
STATUSES = {
    400: "the request is wrong; the sentence says what was expected",
    401: "the key is missing or wrong",
    403: "a page of another site asked",
    404: "no such model, or nothing at this address",
    413: "the request is too large",
    421: "the server answers to other names only",
    429: "too many requests wait; Retry-After says when to try again",
    500: "the server itself failed",
    501: "an extra is not installed on the server",
    503: "the server is being stopped, or is not ready yet",
    504: "the request was not answered in time",
}


class Health(BaseModel):
    status: str


health, models_api = APIRouter(), APIRouter()


@health.get("/health", response_model=Health, summary="The process is alive")
async def alive() -> Response:
    return Json({"status": "ok"})


@health.get("/ready", response_model=Health, summary="The process takes requests")
async def ready(request: Request) -> Response:
    api = api_of(request)
    if api.draining or not api.models.ready:
        return Json(error_content(503, "the server is being stopped; ask another one.", "closing"), 503)
    return Json({"status": "ready"})


@health.get("/metrics", summary="Numbers for Prometheus", responses={200: {"content": {"text/plain": {}}}})
async def metrics(request: Request) -> Response:
    return Response(request.app.state.metrics.page(), media_type="text/plain; version=0.0.4; charset=utf-8")


def described(model: ServedModel) -> dict[str, Any]:
    routes = [f"/v1{path}" for path in model.paths]
    return {"id": model.name, "object": "model", "created": model.opened.created, "owned_by": "regard", "routes": routes}


@models_api.get("/models", response_model=ModelsReply, summary="All models, and the routes of each")
async def all_models(request: Request) -> Response:
    return Json({"object": "list", "data": [described(model) for model in api_of(request).models]})


@models_api.get("/models/{name:path}", response_model=ModelReply, summary="One model")
async def one_model(request: Request, name: str) -> Response:
    found = api_of(request).models.served.get(name)
    if found is None:
        raise Refused("there is no model of this name; GET /v1/models lists them all.", status=404, code="model_not_found")
    return Json(described(found))


async def named(request: Request) -> None:
    """Write down the route, by the path that the application knows it by."""
    path, prefix = request.scope["route"].path, PREFIX if request.scope["path"].startswith(f"{PREFIX}/") else ""
    record_of(request.scope).route = prefix + path.removeprefix(prefix)


def create(
    models: Models,
    limits: Limits,
    keys: Keys | None = None,
    *,
    log_texts: bool = False,
    write: Callable[[str], None] | None = write_line,
    watch: Callable[[], None] | None = None,
    every: float = 0.0,
) -> Journal:
    """Return the application. `watch` looks for newer files of the runs, called every so many seconds in a thread."""
    api, counted = Api(models, limits, log_texts), Metrics(models)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(_repeat(counted.update, MINE))]
        if watch is not None and every:
            tasks.append(asyncio.create_task(_repeat(watch, every)))
        yield
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    app = FastAPI(
        title="Regard", version=__version__, docs_url=None, redoc_url=None, lifespan=lifespan, redirect_slashes=False,
        dependencies=[Depends(named)], generate_unique_id_function=lambda route: route.name,
    )  # fmt: skip
    app.state.api, app.state.metrics = api, counted
    app.include_router(health)
    errors: dict[int | str, dict[str, Any]] = {n: {"model": ErrorReply, "description": text} for n, text in STATUSES.items()}
    for router in (models_api, completions.router, embeddings.router, router_of(models)):
        app.include_router(router, prefix=PREFIX, responses=errors)
    add_refusals(app)
    app.openapi = lambda: document(app)  # type: ignore[method-assign]
    guard = Guard(app, keys, limits.body, lambda: api.draining)
    return Journal(guard, [counted.observe], log_texts, write)


def api_behind(journal: Journal) -> Api:
    """Return the state of an application that `create` returned."""
    guard: Any = journal.app
    return api_behind_app(guard.app)


def document(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document, without the 422 that FastAPI adds: a wrong body is answered by 400 here."""
    if app.openapi_schema is None:
        found = get_openapi(title=app.title, version=app.version, routes=app.routes, description="Every model behind HTTP.")
        for path in found["paths"].values():
            for operation in path.values():
                operation.get("responses", {}).pop("422", None)
        for path, examples in openai_examples(api_behind_app(app).models).items():
            content = found["paths"][f"{PREFIX}{path}"]["post"]["requestBody"]["content"]["application/json"]
            content["examples"] = examples
        found["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        found["security"] = [{"key": []}, {}]
        app.openapi_schema = found
    return app.openapi_schema


def api_behind_app(app: FastAPI) -> Api:
    api: Api = app.state.api
    return api


def openai_examples(models: Models) -> dict[str, dict[str, Any]]:
    """Return a body for each of OpenAI's routes and each model that answers it."""
    bodies: dict[str, Callable[[str], dict[str, Any]]] = {
        COMPLETIONS: lambda text: {"prompt": text, "max_tokens": 4},
        CHAT: lambda text: {"messages": [{"role": "user", "content": text}], "max_tokens": 4},
        EMBEDDINGS: lambda text: {"input": [text]},
    }
    found = dict[str, dict[str, Any]]()
    for path, body in bodies.items():
        able = [model.name for model in models if path in model.paths]
        if able:
            found[path] = {name: {"value": {"model": name, **body(HELLO)}} for name in able}
    return found


async def _repeat(call: Callable[[], None], seconds: float) -> None:
    while True:
        await asyncio.sleep(seconds)
        await asyncio.to_thread(call)
