"""Questions about runs: which there are, what they are, how they train, and what one says to a text."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import FastAPI, Query
from starlette.responses import Response

from regard.model.probe import attentions
from regard.runs.task import TASKS
from regard.studio.gallery import LARGEST
from regard.studio.metrics import curves_of
from regard.studio.passes import Asked, Look, look
from regard.studio.wire import Json, LookAt, Name, Step

if TYPE_CHECKING:
    from regard.studio.app import Studio

Version = Annotated[str, Query(max_length=64)]


def add(app: FastAPI, studio: Studio) -> None:
    @app.get("/api/runs")
    async def listed() -> Response:
        return Json([{"name": name, "open": studio.runs.is_open(name)} for name in studio.runs.openings])

    @app.get("/api/run")
    async def card(run: Name, step: Annotated[Step, Query()] = None) -> Response:
        return Json(await studio.passes.do(partial(_card, studio, run, step)))

    @app.get("/api/changed")
    async def changed(run: Name, version: Version = "") -> Response:
        return Json({"changed": await studio.reads.do(partial(studio.runs.changed, run, version))})

    @app.get("/api/metrics")
    async def metrics(run: Name) -> Response:
        return Json(await studio.reads.do(partial(_metrics, studio, run)))

    @app.post("/api/look")
    async def looked(question: LookAt) -> Response:
        asked = Asked(question.run, question.text, question.target or None, question.step)
        return Json((await studio.passes.do(partial(looked_at, studio, asked))).as_dict())

    @app.post("/api/answer")
    async def answered(question: LookAt) -> Response:
        return Json({"answer": await studio.passes.do(partial(_answer, studio, question))})


def _answer(studio: Studio, question: LookAt) -> str:
    desk = studio.runs.desk(question.run, question.step)
    with studio.runs.alone(desk):
        return desk.answer(question.text)


def looked_at(studio: Studio, asked: Asked) -> Look:
    """Kept from before, or passed now; what was kept of a run that has been opened again is another run's."""
    desk, version = studio.runs.opened(asked.run, asked.step)
    asked = replace(asked, version=version)
    if (kept := studio.looks.get(asked.id)) is not None:
        return kept
    return studio.looks.keep(look(asked, desk, studio.runs.alone(desk)))


def _card(studio: Studio, name: str, step: int | None) -> dict[str, Any]:
    """Asked for once by each page that is loaded, so it is what opens a run again that has changed."""
    desk, version = studio.runs.refreshed(name, step)
    studio.looks.forget(name, version)
    heads = {name: found.heads for name, found in attentions(desk.model).items()}
    return {
        "name": name,
        "version": version,
        "scored_on": TASKS[desk.task].scored_on if desk.task in TASKS else None,
        "facts": dict(desk.facts),
        "example": desk.example,
        "images": None if desk.gallery is None else {"largest": LARGEST},
        "attentions": heads,
        "steps": list(studio.runs.opening(name).steps),
    }


def _metrics(studio: Studio, name: str) -> dict[str, Any]:
    folder = studio.runs.opening(name).folder
    return {"curves": {}, "notes": []} if folder is None else curves_of(folder / "metrics.jsonl")
