"""Questions about words: a word in several sentences, its neighbours, analogies, and the vectors of positions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from fastapi import FastAPI
from starlette.responses import Response

from regard.core.errors import UserError
from regard.lens.analyses.word_senses import uses_data
from regard.studio.wire import Analogy, Json, Name, Uses, numbers

if TYPE_CHECKING:
    from regard.studio.app import Studio


def add(app: FastAPI, studio: Studio) -> None:
    @app.post("/api/uses")
    async def uses(question: Uses) -> Response:
        return Json(await studio.passes.do(partial(_uses, studio, question)))

    @app.get("/api/near")
    async def near(run: Name, word: Name) -> Response:
        return Json(await studio.reads.do(lambda: studio.runs.session(run).vocabulary().near(word)))

    @app.post("/api/analogy")
    async def analogy(question: Analogy) -> Response:
        q = question
        return Json(await studio.reads.do(lambda: studio.runs.session(q.run).vocabulary().analogy(q.minus, q.base, q.plus)))

    @app.get("/api/positions")
    async def positions(run: Name) -> Response:
        return numbers(await studio.reads.do(partial(_positions, studio, run)))


def _uses(studio: Studio, question: Uses) -> dict[str, Any]:
    session = studio.runs.session(question.run)
    with studio.runs.alone(session):
        found = session.uses(question.word, question.sentences)
    order = found.order
    maps = [_plane(vectors[order]) for vectors in found.vectors]
    return {**uses_data(found), "map": maps, "distances": found.distances_LUU[:, order][:, :, order]}


def _plane(vectors_UD: np.ndarray) -> np.ndarray:
    """The two directions along which the uses differ most (PCA), scaled to the unit square around their middle."""
    centred = vectors_UD.astype(np.float64) - vectors_UD.mean(0)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    flat = np.zeros((len(vectors_UD), 2))
    some = min(2, len(sizes))
    flat[:, :some] = left[:, :some] * sizes[:some]
    most = np.abs(flat).max()
    return flat / most if most > 1e-9 else flat


def _positions(studio: Studio, run: str) -> np.ndarray:
    found = studio.runs.session(run).vocabulary().between_positions()
    if found is None:
        raise UserError("this model has no vectors of positions: it reads word by word, or knows order by visibility alone.")
    return found.cpu().numpy().astype(np.float32)
