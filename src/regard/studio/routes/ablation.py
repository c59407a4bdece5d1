"""Questions that change the model to find out what matters: heads switched off, all of them in turn, other words forced."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from starlette.responses import Response

from regard.studio import ablation
from regard.studio.passes import Look
from regard.studio.routes.weights import Id, kept
from regard.studio.wire import Align, Grow, Json, Off

if TYPE_CHECKING:
    from regard.studio.app import Studio


def add(app: FastAPI, studio: Studio) -> None:
    @app.post("/api/ablate")
    async def ablated(id: Id, question: Off) -> Response:
        return Json(await studio.passes.do(partial(_off, studio, kept(studio, id), question.off)))

    @app.get("/api/ablations")
    async def ablations(id: Id) -> Response:
        return Json(await studio.passes.do(partial(_each, studio, kept(studio, id))))

    @app.post("/api/beam")
    async def grown(question: Grow) -> Response:
        return Json(await studio.passes.do(partial(_grown, studio, question)))

    @app.get("/api/kept")
    async def kept_heads(id: Id) -> Response:
        return Json(await studio.passes.do(partial(_kept, studio, kept(studio, id))))

    @app.post("/api/alignment")
    async def aligned(question: Align) -> Response:
        return Json(await studio.passes.do(partial(_aligned, studio, question)))


def _off(studio: Studio, look: Look, off: dict[str, list[int]]) -> dict[str, Any]:
    gates = ablation.gates_of(look, off)
    with studio.runs.alone(look.desk):
        return ablation.changed(look, gates)


def _each(studio: Studio, look: Look) -> dict[str, Any]:
    with studio.runs.alone(look.desk):
        return ablation.each(look)


def _kept(studio: Studio, look: Look) -> dict[str, Any]:
    with studio.runs.alone(look.desk):
        return ablation.kept(look, ablation.each(look)["rise"])


def _aligned(studio: Studio, question: Align) -> dict[str, Any]:
    desk = studio.runs.desk(question.run)
    with studio.runs.alone(desk):
        tokens, weights = desk.aligned(question.text, question.tokens)
    return {"tokens": tokens, "weights": weights}


def _grown(studio: Studio, question: Grow) -> dict[str, Any]:
    desk = studio.runs.desk(question.run)
    with studio.runs.alone(desk):
        forced = [*question.forced, *(desk.spell(question.word) if question.word else [])]
        tree = desk.search(question.text, question.beam, forced)
    piece = desk.written
    found = tree.as_dict()
    for step in found["steps"]:
        for node in step:
            node["piece"] = piece(node["token"])
    for hypothesis in found["hypotheses"]:
        hypothesis["text"] = desk.told(hypothesis["ids"])
        hypothesis["pieces"] = [piece(i) for i in hypothesis["ids"]]
    return found
