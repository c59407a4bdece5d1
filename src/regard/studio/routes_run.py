"""Questions about runs: which there are, what they are, how they train, and what one says to a text."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import FastAPI, Query
from starlette.responses import Response

from regard.model.probe import attentions
from regard.studio.gallery import LARGEST
from regard.studio.looks import Asked, Look, look
from regard.studio.questions import LookAt, Name, Step
from regard.studio.wire import Json
from regard.train.runlog import read_metrics

if TYPE_CHECKING:
    from regard.studio.app import Studio

POINTS = 800  # of a curve


def add(app: FastAPI, studio: Studio) -> None:
    @app.get("/api/runs")
    async def listed() -> Response:
        return Json([{"name": name, "open": studio.runs.is_open(name)} for name in studio.runs.openings])

    @app.get("/api/run")
    async def card(run: Name, step: Annotated[Step, Query()] = None) -> Response:
        return Json(await studio.passes.do(partial(_card, studio, run, step)))

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
    """Kept from before, or passed now."""
    if (kept := studio.looks.get(asked.id)) is not None:
        return kept
    desk = studio.runs.desk(asked.run, asked.step)
    return studio.looks.keep(look(asked, desk, studio.runs.alone(desk)))


def _card(studio: Studio, name: str, step: int | None) -> dict[str, Any]:
    desk = studio.runs.desk(name, step)
    heads = {name: found.heads for name, found in attentions(desk.model).items()}
    return {
        "name": name,
        "task": desk.task,
        "facts": dict(desk.facts),
        "example": desk.example,
        "images": None if desk.gallery is None else {"largest": LARGEST},
        "attentions": heads,
        "steps": list(studio.runs.opening(name).steps),
    }


def _metrics(studio: Studio, name: str) -> dict[str, Any]:
    """Numbers by step, thinned to what a curve can show; the last is always there."""
    folder = studio.runs.opening(name).folder
    path = None if folder is None else folder / "metrics.jsonl"
    records = [] if path is None or not path.exists() else read_metrics(path)
    curves: dict[str, list[tuple[int, float]]] = {}
    for record in records:
        for key, value in record.items():
            if key != "step" and isinstance(value, (int, float)) and not isinstance(value, bool) and "step" in record:
                curves.setdefault(key, []).append((int(record["step"]), float(value)))
    return {"curves": {key: _thinned(points) for key, points in curves.items()}}


def _thinned(points: list[tuple[int, float]]) -> list[tuple[int, float]]:
    every = -(-len(points) // POINTS)
    return points[:: max(1, every)] + (points[-1:] if (len(points) - 1) % max(1, every) else [])
