"""The routes that tasks declare: `/v1/translate`, `/v1/classify` and whatever the models at hand answer."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Body, Request
from starlette.responses import Response

from regard.core.errors import UserError
from regard.runs.routes import AnswerRoute, Route, WriteRoute
from regard.serve.bridge import Asked
from regard.serve.errors import Json, Refused
from regard.serve.models import Models
from regard.serve.work import Answer
from regard.serve.writing import generate, joined, usage


def router_of(models: Models) -> APIRouter:
    """Return a router with every path that a model declares, documented by an example that this model answers."""
    router, found = APIRouter(), dict[str, dict[str, Route]]()
    for model in models:
        for path, route in model.routes.items():
            found.setdefault(path, {})[model.name] = route
    for path, routes in sorted(found.items()):
        first = next(iter(routes.values()))
        if len({(route.body, route.answer) for route in routes.values()}) > 1:
            raise UserError(f"the models {', '.join(routes)} declare /v1{path} with different bodies; serve them apart.")
        examples = {name: {"value": {"model": name, **route.example}} for name, route in routes.items()}
        endpoint = _endpoint(path, first, examples)
        router.add_api_route(path, endpoint, methods=["POST"], response_model=first.answer, summary=first.title)
    return router


def _endpoint(path: str, route: Route, examples: dict[str, Any]) -> Callable[..., Awaitable[Response]]:
    async def answered(request: Request, body: Any) -> Response:
        return await answer(request, path, body)

    kinds = {"request": Request, "body": Annotated[route.body, Body(openapi_examples=examples)]}
    parameters = [
        inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=kind) for name, kind in kinds.items()
    ]
    answered.__signature__ = inspect.Signature(parameters, return_annotation=Response)  # type: ignore[attr-defined]
    answered.__name__ = path.strip("/").replace("/", "_")
    return answered


async def answer(request: Request, path: str, body: Any) -> Response:
    asked = Asked.begin(request, body.model, path)
    route = asked.model.routes[path]
    if asked.api.log_texts:
        asked.record.body = body.model_dump(exclude_none=True)
    if getattr(body, "attention", False) and getattr(route, "attention", None) is None:
        raise Refused("this model has no attention weights to return; leave attention out.", param="attention")
    if isinstance(route, WriteRoute):
        return await written(asked, route, body)
    assert isinstance(route, AnswerRoute)
    inputs = list(route.inputs(asked.model.predictor, body))
    asked.api.check_texts(inputs)
    works = [Answer(inputs=one, batch=route.batch, length=route.length(one)) for one in inputs]
    found = [result.value for result in await asked.results(works)]
    content = {"model": asked.model.name, **route.outputs(asked.model.predictor, body, found)}
    return Json(content | await weights(asked, route, body, inputs))


async def written(asked: Asked, route: WriteRoute, body: Any) -> Response:
    sources = list(route.sources(asked.model.predictor, body))
    asked.api.check_texts(sources)
    given = body.model_dump(exclude_none=True)
    results = await asked.results([generate(asked, source, given) for source in sources])
    counted = usage(sum(one.prompt_tokens for one in results), sum(one.generated_tokens for one in results))
    content = {"model": asked.model.name, "outputs": [joined(one.samples) for one in results], "usage": counted}
    return Json(content | await weights(asked, route, body, sources))


async def weights(asked: Asked, route: AnswerRoute | WriteRoute, body: Any, inputs: Sequence[Any]) -> dict[str, Any]:
    """Return the attention weights of each input if they are asked for: a pass of its own, since a probe keeps every layer."""
    if not getattr(body, "attention", False):
        return {}
    assert route.attention is not None
    works = [Answer(inputs=one, batch=partial(_each, route.attention), length=1) for one in inputs]
    return {"attention": [result.value for result in await asked.results(works)]}


def _each(attention: Callable[[Any, Any], dict[str, Any]], predictor: Any, inputs: Sequence[Any]) -> list[dict[str, Any]]:
    return [attention(predictor, one) for one in inputs]
