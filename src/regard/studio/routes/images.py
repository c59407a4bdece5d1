"""Questions about images: the list of a run's images, their pixels, and uploads."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import FastAPI, Query, Request
from starlette.responses import Response

from regard.core.errors import UserError
from regard.studio.gallery import Gallery
from regard.studio.wire import Count, Json, Name, numbers

if TYPE_CHECKING:
    from regard.studio.app import Studio

Some = Annotated[int, Query(ge=1, le=96)]


def add(app: FastAPI, studio: Studio) -> None:
    @app.get("/api/images")
    async def images(run: Name, first: Count = 0, count: Some = 24, around: Name | None = None) -> Response:
        return Json(await studio.reads.do(partial(_listed, studio, run, first, count, around)))

    @app.get("/api/image-thumbnails")
    async def thumbnails(run: Name, first: Count = 0, count: Some = 24) -> Response:
        return numbers(await studio.reads.do(lambda: _gallery(studio, run).thumbnails(first, count)))

    @app.get("/api/image")
    async def image(run: Name, name: Name) -> Response:
        return numbers(await studio.reads.do(lambda: _gallery(studio, run).picture(name).shown_YXC))

    @app.post("/api/image")
    async def handed_in(run: Name, request: Request, file: Annotated[str, Query(max_length=400)] = "this file") -> Response:
        content = await request.body()
        return Json({"name": await studio.reads.do(lambda: _gallery(studio, run).take(content, file or "this file"))})


def _gallery(studio: Studio, run: str) -> Gallery:
    found = studio.runs.session(run).gallery
    if found is None:
        raise UserError(f"{run} reads text, not images; give it a text.")
    return found


def _listed(studio: Studio, run: str, first: int, count: int, around: str | None) -> dict[str, Any]:
    """Return `count` images from the first on, or the page of the list that has the image `around`."""
    gallery = _gallery(studio, run)
    place = None if around is None else gallery.place(around)
    begin = first if place is None else place // count * count
    some = [{"name": example.name, "caption": example.captions[0]} for example in gallery.examples[begin : begin + count]]
    return {"images": some, "first": begin, "of": len(gallery.examples), "label": around and gallery.label(around)}
