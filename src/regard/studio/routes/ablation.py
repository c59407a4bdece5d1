"""Questions that change the model to find out what matters: heads switched off, other tokens forced, two passes compared.

A weight says what a head could use; whether the model needs it shows when the head is gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from fastapi import FastAPI
from starlette.responses import Response
from torch import Tensor

from regard.core.errors import UserError
from regard.lens.analyses.ablation import ablation, nll, without
from regard.model.probe import attentions, not_recording, probe
from regard.studio.passes import ModelPass, blocks, outputs_of, shape
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
    async def alignment(question: Align) -> Response:
        return Json(await studio.passes.do(partial(_aligned, studio, question)))


def _off(studio: Studio, model_pass: ModelPass, off: dict[str, list[int]]) -> dict[str, Any]:
    gates = gates_of(model_pass, off)
    with studio.runs.alone(model_pass.session):
        return changed(model_pass, gates)


def _each(studio: Studio, model_pass: ModelPass) -> dict[str, Any]:
    with studio.runs.alone(model_pass.session):
        return each(model_pass)


def _kept(studio: Studio, model_pass: ModelPass) -> dict[str, Any]:
    with studio.runs.alone(model_pass.session):
        return loss_by_heads(model_pass, each(model_pass)["rise"])


def _aligned(studio: Studio, question: Align) -> dict[str, Any]:
    session = studio.runs.session(question.run)
    with studio.runs.alone(session):
        tokens, weights = session.alignment(question.text, question.tokens)
    return {"tokens": tokens, "weights": weights}


def _grown(studio: Studio, question: Grow) -> dict[str, Any]:
    session = studio.runs.session(question.run)
    with studio.runs.alone(session):
        forced = [*question.forced, *(session.target_tokenizer.encode(question.word) if question.word else [])]
        tree = session.search(question.text, question.beam, forced)
    tokenizer, found = session.target_tokenizer, tree.as_dict()
    for step in found["steps"]:
        for node in step:
            (node["piece"],) = tokenizer.tokens([node["token"]])
    for hypothesis in found["hypotheses"]:
        hypothesis["text"] = tokenizer.decode(hypothesis["ids"])
        hypothesis["pieces"] = tokenizer.tokens(hypothesis["ids"])
    return found


POINTS = 25  # of the curve of heads kept


def gates_of(model_pass: ModelPass, off: Mapping[str, Sequence[int]]) -> dict[str, Tensor]:
    found, gates = attentions(model_pass.subject.model), {}
    for name, heads in off.items():
        if name not in found:
            raise UserError(f"there is no attention {name[:60]!r}; there are {', '.join(found)}.")
        if heads and max(heads) >= found[name].heads:
            raise UserError(f"head {max(heads)} is not there; {name} has {found[name].heads}, numbered from 0.")
        gates[name] = torch.ones(found[name].heads)
        gates[name][list(heads)] = 0.0
    return gates


@torch.no_grad()
def changed(model_pass: ModelPass, gates: Mapping[str, Tensor]) -> dict[str, Any]:
    """Return what each position predicts with these gates on the same text, and the model's own answer."""
    with probe(model_pass.subject.model, gates), not_recording(model_pass.subject.model):
        steps = outputs_of(model_pass.subject.forward(1)[0], model_pass.subject)
        answer = model_pass.session.answer(model_pass.asked.text)
    scored = [step["nll"] for step in steps if step["nll"] is not None]
    return {"steps": steps, "nll": float(np.mean(scored)) if scored else None, "answer": answer}


def each(model_pass: ModelPass) -> dict[str, Any]:
    """Return the rise of the loss without each head alone, and the choices that change."""
    found = ablation(model_pass.subject)
    changes: dict[str, list[list[dict[str, Any]]]] = {}
    for head in found.heads:
        changes.setdefault(head.attention, []).append([vars(change) for change in head.changes])
    return {"nll": found.nll, "rise": found.field(), "changes": changes}


def loss_by_heads(model_pass: ModelPass, rise: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """The loss on this text with fewer and fewer heads: those that are missed least go first."""
    order = sorted((value, name, head) for name, values in rise.items() for head, value in enumerate(values))
    gone = sorted({round(n * len(order) / POINTS) for n in range(POINTS + 1)})
    groups: list[dict[str, set[int]]] = [{} for _ in gone]
    for group, count in zip(groups, gone):
        for _, name, head in order[:count]:
            group.setdefault(name, set()).add(head)
    losses = [nll(logits_LV, model_pass.subject) for logits_LV in without(model_pass.subject, groups)]
    return {"heads": len(order), "points": [[len(order) - count, loss] for count, loss in zip(gone, losses)]}


def compare_heads(a: ModelPass, b: ModelPass) -> dict[str, Any]:
    """Return half the summed differences of weights by head, as a mean over queries: 0 is equal, 1 disjoint."""
    found = {name: _apart(a, b, name) for name in a.seen if name in b.seen.seen and _alike(a, b, name)}
    left_out = [name for name in a.seen if name not in found]
    return {"apart": found, "left_out": left_out, "nll": [_nll(a), _nll(b)]}


def _alike(a: ModelPass, b: ModelPass, name: str) -> bool:
    return shape(a.attention(name)) == shape(b.attention(name))


def _apart(a: ModelPass, b: ModelPass, name: str) -> np.ndarray:
    count, queries, _ = shape(a.attention(name))
    total = np.zeros(count)
    both = zip(blocks(a.attention(name), range(count), range(queries)), blocks(b.attention(name), range(count), range(queries)))
    for (_, one_HRM), (_, other_HRM) in both:
        total += np.abs(one_HRM - other_HRM).sum((1, 2)) / 2
    return total / queries


def _nll(model_pass: ModelPass) -> float | None:
    scored = [step["nll"] for step in model_pass.steps if step["nll"] is not None]
    return float(np.mean(scored)) if scored else None
