"""Questions about what was looked at: weights of heads, pictures of them, what each head is like, one weight's arithmetic."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from fastapi import FastAPI, Query
from starlette.exceptions import HTTPException
from starlette.responses import Response

from regard.core.errors import UserError
from regard.studio import arithmetic, matrices
from regard.studio import arithmetic as sums
from regard.studio.passes import Look
from regard.studio.wire import Count, Json, Name, numbers

if TYPE_CHECKING:
    from regard.studio.app import Studio

Id = Annotated[str, Query(pattern="^[0-9a-f]{20}$")]
Span = Annotated[str, Query(pattern=r"^\d{1,6}:\d{1,6}$")]
Heads = Annotated[str, Query(pattern=r"^\d{1,4}(,\d{1,4}){0,255}$")]
FORGOTTEN = "this look is no longer kept; ask for it again."


def add(app: FastAPI, studio: Studio) -> None:
    @app.get("/api/weights")
    async def weights(id: Id, name: Name, heads: Heads, rows: Span | None = None, columns: Span | None = None) -> Response:
        job = partial(_weights, kept(studio, id), name, heads, rows, columns)
        return numbers(await studio.reads.do(job))

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
        return numbers(await studio.reads.do(partial(matrices.thumbnails, seen)))

    @app.get("/api/heads")
    async def of_heads(id: Id) -> Response:
        return Json(await studio.reads.do(partial(matrices.statistics, kept(studio, id))))

    @app.get("/api/norms")
    async def norms(id: Id, name: Name) -> Response:
        return numbers(await studio.reads.do(partial(matrices.value_norms, kept(studio, id), name)))

    @app.get("/api/arithmetic")
    async def one_weight(id: Id, name: Name, head: Count, query: Count, key: Count) -> Response:
        place = arithmetic.Place(name, head, query, key)
        return Json(await studio.passes.do(partial(_arithmetic, studio, kept(studio, id), place)))

    @app.get("/api/terms")
    async def terms(id: Id, name: Name, head: Count, query: Count, key: Count, vector: Name, index: Count) -> Response:
        place = arithmetic.Place(name, head, query, key)
        return Json(await studio.passes.do(partial(_terms, studio, kept(studio, id), place, vector, index)))


def kept(studio: Studio, id: str) -> Look:
    if (found := studio.looks.get(id)) is None:
        raise HTTPException(410, FORGOTTEN)
    return found


def _span(given: str | None, most: int, what: str) -> range:
    first, last = (0, most) if given is None else map(int, given.split(":"))
    if not 0 <= first < last <= most:
        raise UserError(f"{what} {given} are not there; there are {most}, so give some from 0:{most}.")
    return range(first, last)


def _some(look: Look, name: str, heads: str) -> list[int]:
    count = matrices.shape(look.attention(name))[0]
    chosen = [int(head) for head in heads.split(",")]
    if max(chosen) >= count:
        raise UserError(f"head {max(chosen)} is not there; {name} has {count}, numbered from 0.")
    return chosen


def _weights(look: Look, name: str, heads: str, rows: str | None, columns: str | None) -> np.ndarray:
    chosen, (_, queries, keys) = _some(look, name, heads), matrices.shape(look.attention(name))
    down, across = _span(rows, queries, "rows"), _span(columns, keys, "columns")
    if len(chosen) * len(down) * len(across) > matrices.MOST:
        raise UserError(f"that is more than {matrices.MOST:,} weights at once; ask for an overview, or for fewer rows.")
    return matrices.exact(look.attention(name), chosen, down, across)


def _overview(look: Look, name: str, head: int, size: int, rows: str | None, columns: str | None) -> np.ndarray:
    (chosen,), (_, queries, keys) = _some(look, name, str(head)), matrices.shape(look.attention(name))
    down, across = _span(rows, queries, "rows"), _span(columns, keys, "columns")
    return matrices.as_bytes(matrices.pooled(look.attention(name), [chosen], down, across, size)[0])


def _arithmetic(studio: Studio, look: Look, place: arithmetic.Place) -> dict[str, Any]:
    arithmetic.check(look, place)
    traced = arithmetic.trace(look, place.name, studio.runs.alone(look.desk))
    return arithmetic.arithmetic(look, place, traced)


def _terms(studio: Studio, look: Look, place: arithmetic.Place, vector: str, index: int) -> dict[str, Any]:
    arithmetic.check(look, place)
    traced = arithmetic.trace(look, place.name, studio.runs.alone(look.desk))
    return sums.terms(look, place, traced, vector, index)
