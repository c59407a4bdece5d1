"""Questions about runs: which there are, what they are, how they train, and what one says to a text."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import FastAPI, Query
from starlette.responses import Response

from regard.model.probe import attentions
from regard.runs.task import TASKS
from regard.studio.gallery import LARGEST
from regard.studio.passes import ModelPass, PassRequest, run_pass
from regard.studio.wire import Json, Name, PassQuestion, Step
from regard.training.checkpoint import finite_number
from regard.training.logging import read_metrics

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

    @app.post("/api/pass")
    async def passed(question: PassQuestion) -> Response:
        asked = PassRequest(question.run, question.text, question.target or None, question.step)
        return Json((await studio.passes.do(partial(find_pass, studio, asked))).as_dict())

    @app.post("/api/answer")
    async def answered(question: PassQuestion) -> Response:
        return Json({"answer": await studio.passes.do(partial(_answer, studio, question))})


def _answer(studio: Studio, question: PassQuestion) -> str:
    session = studio.runs.session(question.run, question.step)
    with studio.runs.alone(session):
        return session.answer(question.text)


def find_pass(studio: Studio, asked: PassRequest) -> ModelPass:
    """Return the cached pass, or run it now; passes of an earlier version of the run do not count."""
    session, version = studio.runs.opened(asked.run, asked.step)
    asked = replace(asked, version=version)
    if (kept := studio.cache.get(asked.id)) is not None:
        return kept
    return studio.cache.keep(run_pass(asked, session, studio.runs.alone(session)))


def _card(studio: Studio, name: str, step: int | None) -> dict[str, Any]:
    """Asked for once by each page that is loaded, so it is what opens a run again that has changed."""
    session, version = studio.runs.refreshed(name, step)
    studio.cache.forget(name, version)
    heads = {name: found.heads for name, found in attentions(session.model).items()}
    return {
        "name": name,
        "version": version,
        "scored_on": TASKS[session.task].scored_on if session.task in TASKS else None,
        "facts": dict(session.facts),
        "example": session.example,
        "images": None if session.gallery is None else {"largest": LARGEST},
        "attentions": heads,
        "steps": list(studio.runs.opening(name).steps),
    }


def _metrics(studio: Studio, name: str) -> dict[str, Any]:
    folder = studio.runs.opening(name).folder
    return {"curves": {}, "notes": []} if folder is None else curves_of(folder / "metrics.jsonl")


POINTS = 800  # of a curve
NAMED = 3  # of what is left out
Curve = list[tuple[int, float]]


def curves_of(path: Path) -> dict[str, Any]:
    """Numbers by step, thinned to what a curve can show; the last is always there."""
    records, damaged = read_metrics(path)
    curves: dict[str, Curve] = {}
    odd: list[str] = []
    for record in records:
        for name, value in record.items():
            if name == "step" or isinstance(value, (bool, list, dict)) or value is None:  # samples, and what others may add
                continue
            if (number := finite_number(value)) is not None:
                curves.setdefault(name, []).append((record["step"], number))
            else:
                odd.append(f"{name[:40]} of step {record['step']:,}")
    notes = [f"{damaged:,} damaged line{'s are' if damaged > 1 else ' is'} left out"] if damaged else []
    if odd:
        more = f" and {len(odd) - NAMED:,} more" if len(odd) > NAMED else ""
        notes.append(f"left out, for it is no finite number: {', '.join(odd[:NAMED])}{more}")
    return {"curves": {name: _thinned(points) for name, points in curves.items()}, "notes": notes}


def _thinned(points: Curve) -> Curve:
    every = -(-len(points) // POINTS)
    return points[:: max(1, every)] + (points[-1:] if (len(points) - 1) % max(1, every) else [])
