"""Questions that lens answers whole: roles of heads, layers read as words, explanations held against each other."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from fastapi import FastAPI
from starlette.responses import Response

from regard.core.errors import UserError
from regard.lens.analyses.deletion import EXPLANATIONS, deletion
from regard.lens.analyses.gradients import gradient_times_input, integrated_gradients
from regard.lens.analyses.logit_lens import logit_lens
from regard.lens.analyses.rollout import rollout
from regard.lens.result import LensResult
from regard.lens.subject import Subject
from regard.studio.passes import ModelPass
from regard.studio.routes.ablation import compare_heads
from regard.studio.routes.weights import Id, kept
from regard.studio.wire import Json

if TYPE_CHECKING:
    from regard.studio.app import Studio

Kind = Literal["logits", "rollout", "gradient", "integrated", "deletion"]
QUICK = {name: explain for name, explain in EXPLANATIONS.items() if name != "flow"}  # which takes longer than all others
EXPLAINED: dict[Kind, Callable[[Subject], LensResult]] = {
    "logits": logit_lens,
    "rollout": rollout,
    "gradient": gradient_times_input,
    "integrated": lambda subject: integrated_gradients(subject, steps=32),
    "deletion": lambda subject: deletion([subject], QUICK),
}
LONGEST = {"logits": 512, "rollout": 512, "gradient": 160, "integrated": 96, "deletion": 96}  # tokens: about ten seconds


def add(app: FastAPI, studio: Studio) -> None:
    @app.get("/api/explain")
    async def explained(id: Id, show: Kind) -> Response:
        return Json(await studio.passes.do(partial(_explained, studio, kept(studio, id), show)))

    @app.get("/api/roles")
    async def roles(id: Id) -> Response:
        return Json(await studio.passes.do(partial(_roles, studio, kept(studio, id))))

    @app.get("/api/document")
    async def document(id: Id) -> Response:
        return Json(await studio.passes.do(partial(_document, studio, kept(studio, id))))

    @app.get("/api/compare")
    async def compared(id: Id, other: Id) -> Response:
        pair = kept(studio, id), kept(studio, other)
        return Json(await studio.reads.do(partial(compare_heads, *pair)))


def _explained(studio: Studio, model_pass: ModelPass, show: Kind) -> dict[str, Any]:
    longest = max(len(side) for side in model_pass.subject.sides.values())
    if longest > LONGEST[show]:
        raise UserError(
            f"this text is {longest:,} tokens long, and {show} takes {LONGEST[show]} here; 'regard lens --show' takes more."
        )
    with studio.runs.alone(model_pass.session):
        return EXPLAINED[show](model_pass.subject).as_dict()


def _document(studio: Studio, model_pass: ModelPass) -> dict[str, Any]:
    with studio.runs.alone(model_pass.session):
        return model_pass.session.document(model_pass.asked.text).as_dict()


def _roles(studio: Studio, model_pass: ModelPass) -> dict[str, Any]:
    """Return every head's main role, its score there, and that of random weights."""
    if model_pass.why is not None:
        raise UserError(model_pass.why)
    with studio.runs.alone(model_pass.session):
        found = model_pass.session.roles(model_pass.asked.text, model_pass.asked.target)
    by_attention: dict[str, list[dict[str, Any]]] = {}
    for name, head in found.heads:
        role = found.main((name, head))
        tally = found.trained[role].get((name, head)) if role in found.trained else None
        evidence = "" if tally is None or tally.best is None else tally.best.told(found.title)
        score, luck = (0.0, None) if tally is None else (tally.score, found.luck(role))
        by_attention.setdefault(name, []).append({"role": role, "score": score, "luck": luck, "evidence": evidence})
    return {"roles": by_attention}
