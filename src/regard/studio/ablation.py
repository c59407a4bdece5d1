"""Heads switched off: what the model then says, how much each alone is missed, and how far one can go.

Weight is not cause. Where a head looks says what it could use; whether the model needs it shows when it is gone.

Two looks beside each other: how differently each head looked, query by query, where both have the same tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.core.errors import UserError
from regard.lens.analyses.ablation import ablation, nll, without
from regard.model.probe import attentions, not_recording, probe
from regard.studio.matrices import blocks, shape
from regard.studio.passes import Look, outputs_of

POINTS = 25  # of the curve of heads kept


def gates_of(look: Look, off: Mapping[str, Sequence[int]]) -> dict[str, Tensor]:
    found, gates = attentions(look.subject.model), {}
    for name, heads in off.items():
        if name not in found:
            raise UserError(f"there is no attention {name[:60]!r}; there are {', '.join(found)}.")
        if heads and max(heads) >= found[name].heads:
            raise UserError(f"head {max(heads)} is not there; {name} has {found[name].heads}, numbered from 0.")
        gates[name] = torch.ones(found[name].heads)
        gates[name][list(heads)] = 0.0
    return gates


@torch.no_grad()
def changed(look: Look, gates: Mapping[str, Tensor]) -> dict[str, Any]:
    """What each position says with these gates, on the same text; and what the model would then answer by itself."""
    with probe(look.subject.model, gates), not_recording(look.subject.model):
        steps = outputs_of(look.subject.forward(1)[0], look.subject)
        answer = look.desk.answer(look.asked.text)
    scored = [step["nll"] for step in steps if step["nll"] is not None]
    return {"steps": steps, "nll": float(np.mean(scored)) if scored else None, "answer": answer}


def each(look: Look) -> dict[str, Any]:
    """How much the loss on this text rises without each head alone, and what then is said otherwise."""
    found = ablation(look.subject)
    changes: dict[str, list[list[dict[str, Any]]]] = {}
    for head in found.heads:
        changes.setdefault(head.attention, []).append([vars(change) for change in head.changes])
    return {"nll": found.nll, "rise": found.field(), "changes": changes}


def kept(look: Look, rise: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """The loss on this text with fewer and fewer heads: those that are missed least go first."""
    order = sorted((value, name, head) for name, values in rise.items() for head, value in enumerate(values))
    gone = sorted({round(n * len(order) / POINTS) for n in range(POINTS + 1)})
    groups: list[dict[str, set[int]]] = [{} for _ in gone]
    for group, count in zip(groups, gone):
        for _, name, head in order[:count]:
            group.setdefault(name, set()).add(head)
    losses = [nll(logits_LV, look.subject) for logits_LV in without(look.subject, groups)]
    return {"heads": len(order), "points": [[len(order) - count, loss] for count, loss in zip(gone, losses)]}


def heads(a: Look, b: Look) -> dict[str, Any]:
    """By attention and head, half the summed differences of weights, as a mean over queries: 0 is the same, 1 all elsewhere."""
    found = {name: _apart(a, b, name) for name in a.seen if name in b.seen.seen and _alike(a, b, name)}
    left_out = [name for name in a.seen if name not in found]
    return {"apart": found, "left_out": left_out, "nll": [_nll(a), _nll(b)]}


def _alike(a: Look, b: Look, name: str) -> bool:
    return shape(a.attention(name)) == shape(b.attention(name))


def _apart(a: Look, b: Look, name: str) -> np.ndarray:
    count, queries, _ = shape(a.attention(name))
    total = np.zeros(count)
    both = zip(blocks(a.attention(name), range(count), range(queries)), blocks(b.attention(name), range(count), range(queries)))
    for (_, one_HRM), (_, other_HRM) in both:
        total += np.abs(one_HRM - other_HRM).sum((1, 2)) / 2
    return total / queries


def _nll(look: Look) -> float | None:
    scored = [step["nll"] for step in look.steps if step["nll"] is not None]
    return float(np.mean(scored)) if scored else None
