"""Questions about weights: aggregated, as tiles and pictures, statistics of heads, the arithmetic of one weight."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from fastapi import FastAPI, Query
from starlette.exceptions import HTTPException
from starlette.responses import Response

from regard.core.errors import UserError
from regard.lens.analyses.weights import Aggregation, Join, Specials, aggregate, part_of
from regard.model.mixers.convolution import Convolution
from regard.model.probe import attentions
from regard.studio import arithmetic, passes
from regard.studio.passes import ModelPass
from regard.studio.wire import Count, Json, Name, numbers

if TYPE_CHECKING:
    from regard.studio.app import Studio

Id = Annotated[str, Query(pattern="^[0-9a-f]{20}$")]
Span = Annotated[str, Query(pattern=r"^\d{1,6}:\d{1,6}$")]
Heads = Annotated[str, Query(pattern=r"^\d{1,4}(,\d{1,4}){0,255}$")]
FORGOTTEN = "this look is no longer kept; ask for it again."


def add(app: FastAPI, studio: Studio) -> None:
    @app.get("/api/weights")
    async def weights(
        id: Id, name: Name, heads: Heads | None = None,
        words: bool = False, specials: Specials = "keep", values: bool = False, join: Join = "none",
    ) -> Response:  # fmt: skip
        """Aggregated weights of an attention, or of all attentions of a part ("cross", "decoder", "encoder") joined."""
        how = Aggregation(words=words, specials=specials, values=values, join=join)
        return Json(await studio.reads.do(partial(_weights, kept(studio, id), name, heads, how)))

    @app.get("/api/tile")
    async def tile(id: Id, name: Name, head: Count, rows: Span | None = None, columns: Span | None = None) -> Response:
        return numbers(await studio.reads.do(partial(_tile, kept(studio, id), name, head, rows, columns)))

    @app.get("/api/overview")
    async def overview(
        id: Id, name: Name, head: Count, size: Annotated[int, Query(ge=1, le=1024)] = 512,
        rows: Span | None = None, columns: Span | None = None,
    ) -> Response:  # fmt: skip
        job = partial(_overview, kept(studio, id), name, head, size, rows, columns)
        return numbers(await studio.reads.do(job))

    @app.get("/api/thumbnails")
    async def thumbnails(id: Id, name: Name) -> Response:
        seen = kept(studio, id).attention(name)
        return numbers(await studio.reads.do(partial(passes.thumbnails, seen)))

    @app.get("/api/heads")
    async def of_heads(id: Id) -> Response:
        return Json(await studio.reads.do(partial(passes.statistics, kept(studio, id))))

    @app.get("/api/arithmetic")
    async def one_weight(id: Id, name: Name, head: Count, query: Count, key: Count) -> Response:
        place = arithmetic.Place(name, head, query, key)
        return Json(await studio.passes.do(partial(_arithmetic, studio, kept(studio, id), place)))

    @app.get("/api/terms")
    async def terms(id: Id, name: Name, head: Count, query: Count, key: Count, vector: Name, index: Count) -> Response:
        place = arithmetic.Place(name, head, query, key)
        return Json(await studio.passes.do(partial(_terms, studio, kept(studio, id), place, vector, index)))


def kept(studio: Studio, id: str) -> ModelPass:
    if (found := studio.cache.get(id)) is None:
        raise HTTPException(410, FORGOTTEN)
    return found


def _span(given: str | None, most: int, what: str) -> range:
    first, last = (0, most) if given is None else map(int, given.split(":"))
    if not 0 <= first < last <= most:
        raise UserError(f"{what} {given} are not there; there are {most}, so give some from 0:{most}.")
    return range(first, last)


def _check_heads(model_pass: ModelPass, name: str, heads: Sequence[int]) -> None:
    count = passes.shape(model_pass.attention(name))[0]
    if max(heads) >= count:
        raise UserError(f"head {max(heads)} is not there; {name} has {count}, numbered from 0.")


def _weights(model_pass: ModelPass, name: str, heads: str | None, how: Aggregation) -> dict[str, Any]:
    names = [one for one in model_pass.seen if part_of(one) == name] or [name]
    chosen = None if heads is None else [int(head) for head in heads.split(",")]
    size = 0
    for one in names:
        count, queries, keys = passes.shape(model_pass.attention(one))
        _check_heads(model_pass, one, chosen or [0])
        if how.values and isinstance(attentions(model_pass.subject.model)[one], Convolution):
            raise UserError(f"{one} does not attend, so no weight brings a value; leave values out.")
        size += (count if chosen is None else len(chosen)) * queries * keys
    if size > passes.MOST:
        raise UserError(f"that is more than {passes.MOST:,} weights at once; ask for an overview, or for fewer heads.")
    if len(names) > 1 and how.join == "none":
        raise UserError(f"{name} has {len(names)} layers; give join=mean or join=max, or one of {', '.join(names)}.")
    return aggregate(model_pass.subject, model_pass.seen, names, chosen, how).packed()


def _tile(model_pass: ModelPass, name: str, head: int, rows: str | None, columns: str | None) -> np.ndarray:
    _check_heads(model_pass, name, [head])
    _, queries, keys = passes.shape(model_pass.attention(name))
    down, across = _span(rows, queries, "rows"), _span(columns, keys, "columns")
    if len(down) * len(across) > passes.MOST:
        raise UserError(f"that is more than {passes.MOST:,} weights at once; ask for an overview, or for fewer rows.")
    return passes.exact(model_pass.attention(name), [head], down, across)[0]


def _overview(model_pass: ModelPass, name: str, head: int, size: int, rows: str | None, columns: str | None) -> np.ndarray:
    _check_heads(model_pass, name, [head])
    _, queries, keys = passes.shape(model_pass.attention(name))
    down, across = _span(rows, queries, "rows"), _span(columns, keys, "columns")
    return passes.as_bytes(passes.pooled(model_pass.attention(name), [head], down, across, size)[0])


def _arithmetic(studio: Studio, model_pass: ModelPass, place: arithmetic.Place) -> dict[str, Any]:
    arithmetic.check(model_pass, place)
    traced = arithmetic.trace(model_pass, place.name, studio.runs.alone(model_pass.session))
    return arithmetic.arithmetic(model_pass, place, traced)


def _terms(studio: Studio, model_pass: ModelPass, place: arithmetic.Place, vector: str, index: int) -> dict[str, Any]:
    arithmetic.check(model_pass, place)
    traced = arithmetic.trace(model_pass, place.name, studio.runs.alone(model_pass.session))
    return arithmetic.terms(model_pass, place, traced, vector, index)
