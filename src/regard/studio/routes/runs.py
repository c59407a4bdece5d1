"""Questions about runs: which there are, how they train, what they say to a text, their images and their words."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
from fastapi import Query, Request
from starlette.responses import Response

from regard.core.errors import UserError
from regard.lens.analyses.word_senses import uses_data
from regard.model.probe import attentions
from regard.runs.task import TASKS
from regard.studio.gallery import LARGEST, Gallery
from regard.studio.passes import PassRequest, run_pass
from regard.studio.routes import Analogy, Json, Name, PassQuestion, Questions, Step, Studio, Uses
from regard.studio.session import Session
from regard.training.checkpoint import finite_number
from regard.training.logging import read_metrics

Version = Annotated[str, Query(max_length=64)]
POINTS = 800  # of a curve
QUESTIONS = 60  # that can be chosen from
NAMED = 3  # of what is left out
Curve = list[tuple[int, float]]
router = Questions()


@router.get("/api/runs")
async def runs(request: Request) -> Response:
    listed = request.app.state.studio.runs
    return Json([{"name": name, "open": listed.is_open(name)} for name in listed.openings])


@router.ask("/api/run", "passes")
def card(studio: Studio, run: Name, step: Annotated[Step, Query()] = None) -> dict[str, Any]:
    """Asked for once by each page that is loaded, so it is what opens a run again that has changed."""
    session, version = studio.runs.refreshed(run, step)
    studio.cache.forget(run, version)
    heads = {name: found.heads for name, found in attentions(session.model).items()}
    return {
        "name": run,
        "version": version,
        "scored_on": TASKS[session.task].scored_on if session.task in TASKS else None,
        "facts": dict(session.facts),
        "example": session.example,
        "images": None if session.gallery is None else _images(session, session.gallery),
        "series": None if session.series is None else dict(session.series),
        "attentions": heads,
        "steps": list(studio.runs.opening(run).steps),
    }


def _images(session: Session, gallery: Gallery) -> dict[str, Any]:
    return {
        "largest": LARGEST,
        "kind": gallery.kind,
        "classes": list(session.classes),
        "questions": list(session.questions)[:QUESTIONS],
    }


@router.ask("/api/changed", "reads")
def changed(studio: Studio, run: Name, version: Version = "") -> dict[str, Any]:
    return {"changed": studio.runs.changed(run, version)}


@router.ask("/api/metrics", "reads")
def metrics(studio: Studio, run: Name) -> dict[str, Any]:
    folder = studio.runs.opening(run).folder
    return {"curves": {}, "notes": []} if folder is None else curves_of(folder / "metrics.jsonl")


@router.ask("/api/pass", "passes", "POST")
def passed(studio: Studio, question: PassQuestion) -> dict[str, Any]:
    """Return the cached pass, or run it now; passes of an earlier version of the run do not count."""
    session, version = studio.runs.opened(question.run, question.step)
    asked = PassRequest(question.run, question.text, question.target or None, question.step, version)
    found = studio.cache.get(asked.id) or studio.cache.keep(run_pass(asked, session, studio.runs.alone(session)))
    return found.as_dict()


@router.ask("/api/answer", "passes", "POST")
def answered(studio: Studio, question: PassQuestion) -> dict[str, Any]:
    session = studio.runs.session(question.run, question.step)
    with studio.runs.alone(session):
        return {"answer": session.answer(question.text)}


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


# --- words ------------------------------------------------------------------------------------------------------------------


@router.ask("/api/near", "reads")
def near(studio: Studio, run: Name, word: Name) -> dict[str, Any]:
    return studio.runs.session(run).vocabulary().near(word)


@router.ask("/api/analogy", "reads", "POST")
def analogy(studio: Studio, question: Analogy) -> dict[str, Any]:
    return studio.runs.session(question.run).vocabulary().analogy(question.minus, question.base, question.plus)


@router.ask("/api/positions", "reads")
def positions(studio: Studio, run: Name) -> np.ndarray:
    found = studio.runs.session(run).vocabulary().between_positions()
    if found is None:
        raise UserError("this model has no vectors of positions: it reads word by word, or knows order by visibility alone.")
    return found.cpu().numpy().astype(np.float32)


@router.ask("/api/uses", "passes", "POST")
def uses(studio: Studio, question: Uses) -> dict[str, Any]:
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
