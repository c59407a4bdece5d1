"""Heads switched off: what the model then says, how much each alone is missed, and how far one can go.

Weight is not cause. Where a head looks says what it could use; whether the model needs it shows when it is gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.errors import UserError
from regard.lens.ablation import ablation, nll, without
from regard.model.probe import attentions, not_recording, probe
from regard.studio.looks import Look, outputs_of

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
