"""Questions that are answered by analyses: explanations, roles of heads, and changes of the model that show what matters.

A weight says what a head could use; whether the model needs it shows when the head is gone. So heads are switched off, other
tokens are forced, and two passes are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from regard.core.errors import UserError
from regard.lens.analyses.ablation import ablation, nll, without
from regard.lens.analyses.deletion import EXPLANATIONS, deletion
from regard.lens.analyses.gradients import gradient_times_input, integrated_gradients
from regard.lens.analyses.logit_lens import logit_lens
from regard.lens.analyses.rollout import rollout
from regard.lens.result import LensResult
from regard.lens.subject import Subject
from regard.model.probe import attentions, not_recording, probe
from regard.studio.passes import ModelPass, blocks, mean_nll, outputs_of, shape
from regard.studio.routes import Align, Grow, Id, Look, Off, Questions, Studio, kept

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
POINTS = 25  # of the curve of heads kept
router = Questions()


@router.ask("/api/explain", "passes")
def explained(studio: Studio, look: Look, show: Kind) -> dict[str, Any]:
    if show != "rollout":
        must_be_scored(look)
    longest = max(len(side) for side in look.subject.sides.values())
    if longest > LONGEST[show]:
        raise UserError(
            f"this text is {longest:,} tokens long, and {show} takes {LONGEST[show]} here; 'regard lens --show' takes more."
        )
    with studio.runs.alone(look.session):
        return EXPLAINED[show](look.subject).as_dict()


def must_be_scored(look: ModelPass) -> None:
    """Refuse a forecaster: its outputs are numbers, which no loss on words or labels is of."""
    if look.subject.series is not None:
        raise UserError("this model forecasts numbers and is scored on no words or labels; Run shows what its tokens attend to.")


@router.ask("/api/document", "passes")
def document(studio: Studio, look: Look) -> dict[str, Any]:
    with studio.runs.alone(look.session):
        return look.session.document(look.asked.text).as_dict()


@router.ask("/api/roles", "passes")
def roles(studio: Studio, look: Look) -> dict[str, Any]:
    """Return every head's main role, its score there, and that of random weights."""
    if look.why is not None:
        raise UserError(look.why)
    with studio.runs.alone(look.session):
        found = look.session.roles(look.asked.text, look.asked.target)
    by_attention: dict[str, list[dict[str, Any]]] = {}
    for name, head in found.heads:
        role = found.main((name, head))
        tally = found.trained[role].get((name, head)) if role in found.trained else None
        evidence = "" if tally is None or tally.best is None else tally.best.told(found.title)
        score, luck = (0.0, None) if tally is None else (tally.score, found.luck(role))
        by_attention.setdefault(name, []).append({"role": role, "score": score, "luck": luck, "evidence": evidence})
    return {"roles": by_attention}


@router.ask("/api/compare", "reads")
def compare_heads(studio: Studio, look: Look, other: Id) -> dict[str, Any]:
    """Return half the summed differences of weights by head, as a mean over queries: 0 is equal, 1 disjoint."""
    another, found = kept(studio, other), {}
    for name in look.seen:
        if name in another.seen.seen and shape(look.attention(name)) == shape(another.attention(name)):
            found[name] = _apart(look, another, name)
    left_out = [name for name in look.seen if name not in found]
    return {"apart": found, "left_out": left_out, "nll": [look.nll, another.nll]}


@router.ask("/api/ablate", "passes", "POST")
def ablated(studio: Studio, look: Look, question: Off) -> dict[str, Any]:
    """Return what each position predicts without these heads on the same text, and the model's own answer."""
    must_be_scored(look)
    gates, model = gates_of(look, question.off), look.subject.model
    with studio.runs.alone(look.session), torch.no_grad(), probe(model, gates), not_recording(model):
        steps = outputs_of(look.subject.forward(1)[0], look.subject)
        answer = look.session.answer(look.asked.text)
    return {"steps": steps, "nll": mean_nll(steps), "answer": answer}


@router.ask("/api/ablations", "passes")
def ablations(studio: Studio, look: Look) -> dict[str, Any]:
    """Return the rise of the loss without each head alone, and the choices that change."""
    must_be_scored(look)
    with studio.runs.alone(look.session):
        found = ablation(look.subject)
    changes: dict[str, list[list[dict[str, Any]]]] = {}
    for head in found.heads:
        changes.setdefault(head.attention, []).append([vars(change) for change in head.changes])
    return {"nll": found.nll, "rise": found.field(), "changes": changes}


@router.ask("/api/kept", "passes")
def kept_heads(studio: Studio, look: Look) -> dict[str, Any]:
    """Return the loss on this text with fewer and fewer heads: those that are missed least go first."""
    must_be_scored(look)
    with studio.runs.alone(look.session):
        rise = ablation(look.subject).field()
        order = sorted((value, name, head) for name, values in rise.items() for head, value in enumerate(values))
        gone = sorted({round(n * len(order) / POINTS) for n in range(POINTS + 1)})
        groups: list[dict[str, set[int]]] = [{} for _ in gone]
        for group, count in zip(groups, gone):
            for _, name, head in order[:count]:
                group.setdefault(name, set()).add(head)
        losses = [nll(logits_LV, look.subject) for logits_LV in without(look.subject, groups)]
    return {"heads": len(order), "points": [[len(order) - count, loss] for count, loss in zip(gone, losses)]}


@router.ask("/api/alignment", "passes", "POST")
def alignment(studio: Studio, question: Align) -> dict[str, Any]:
    session = studio.runs.session(question.run)
    with studio.runs.alone(session):
        tokens, weights = session.alignment(question.text, question.tokens)
    return {"tokens": tokens, "weights": weights}


@router.ask("/api/beam", "passes", "POST")
def grown(studio: Studio, question: Grow) -> dict[str, Any]:
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


def gates_of(look: ModelPass, off: Mapping[str, Sequence[int]]) -> dict[str, Tensor]:
    found, gates = attentions(look.subject.model), {}
    for name, heads in off.items():
        if name not in found:
            raise UserError(f"there is no attention {name[:60]!r}; there are {', '.join(found)}.")
        if heads and max(heads) >= found[name].heads:
            raise UserError(f"head {max(heads)} is not there; {name} has {found[name].heads}, numbered from 0.")
        gates[name] = torch.ones(found[name].heads)
        gates[name][list(heads)] = 0.0
    return gates


def _apart(a: ModelPass, b: ModelPass, name: str) -> np.ndarray:
    count, queries, _ = shape(a.attention(name))
    total = np.zeros(count)
    both = zip(blocks(a.attention(name), range(count), range(queries)), blocks(b.attention(name), range(count), range(queries)))
    for (_, one_HRM), (_, other_HRM) in both:
        total += np.abs(one_HRM - other_HRM).sum((1, 2)) / 2
    return total / queries
