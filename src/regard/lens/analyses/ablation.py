"""Ablation of single heads: the loss and the choices that change when a head is switched off.

All ablations are copies of one input in a batch, each with its own gates, so a model of 144 heads is asked in a few passes. A
head that can be missed is not shown to be idle: another may do the same (Michel et al. 2019, section 4).

Dims: B copies, L output positions, V choices, H heads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from matplotlib.figure import Figure
from torch import Tensor

from regard.core.packing import IGNORED
from regard.lens.display import Cell, report, visible
from regard.lens.plots.charts import Field, atlas, by_attention
from regard.lens.result import NotebookView
from regard.lens.subject import Subject
from regard.model.probe import attentions, probe
from regard.model.pruning import Heads

NUMBERS = 2**24  # logits that are made at a time
COPIES = 64
NAMED = 3  # changes reported for each head


@dataclass(frozen=True)
class Change:
    """A position whose likeliest choice changes."""

    position: int
    before: str
    after: str


@dataclass(frozen=True)
class Without:
    """The loss and the changed choices without one head."""

    attention: str
    head: int
    delta: float  # of the mean negative log-likelihood: how much worse it is
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class Ablation(NotebookView):
    FORMAT = "regard.ablation.1"
    title: str
    nll: float  # with all heads
    heads: tuple[Without, ...]

    def field(self) -> dict[str, list[float]]:
        return by_attention((head.attention, head.delta) for head in self.heads)

    def lines(self) -> list[str]:
        order = sorted(self.heads, key=lambda head: -head.delta)
        rows: list[list[Cell]] = [
            [head.attention, head.head, head.delta, len(head.changes), _told(head.changes)] for head in order
        ]
        harmless = sum(not head.changes for head in self.heads)
        told = f"each of {len(self.heads)} heads switched off alone; nll with all is {self.nll:.3f}; "
        told += f"{harmless} leave every likeliest choice as it was"
        return report(self.title, told, ["attention", "head", "more nll", "changed", "such as"], rows)

    def figure(self) -> Figure:
        caption = "each head switched off alone; brown: better without"
        return atlas(self.title, caption, [Field("more nll", self.field(), signed=True)])


def ablation(subject: Subject) -> Ablation:
    """Every head of the model, one at a time."""
    single = [(name, head) for name, attention in attentions(subject.model).items() for head in range(attention.heads)]
    (whole_LV,) = without(subject, [{}])
    heads = []
    for (name, head), logits_LV in zip(single, without(subject, [{name: {head}} for name, head in single])):
        delta = nll(logits_LV, subject) - nll(whole_LV, subject)
        heads.append(Without(name, head, delta, tuple(_changes(subject, whole_LV, logits_LV))))
    return Ablation(subject.title, nll(whole_LV, subject), tuple(heads))


@torch.no_grad()
def without(subject: Subject, groups: Sequence[Heads]) -> Iterator[Tensor]:
    """logits_LV of the model without each group of heads, in their order; as many groups in a pass as memory allows."""
    found = attentions(subject.model)
    start, step = 0, 1  # the first pass tells how large one is
    while start < len(groups):
        batch = groups[start : start + step]
        with probe(subject.model, gates=_gates({name: a.heads for name, a in found.items()}, batch, subject)) as looking:
            looking.recording = False
            logits_BLV = subject.forward(len(batch))
        yield from logits_BLV
        start, step = start + len(batch), max(1, min(COPIES, NUMBERS // logits_BLV[0].numel()))


def _gates(heads: Mapping[str, int], groups: Sequence[Heads], subject: Subject) -> dict[str, Tensor]:
    """Only of attentions that lose a head: what is not gated is not multiplied."""
    device = next(subject.model.parameters()).device
    gates = {}
    for name in dict.fromkeys(name for group in groups for name in group):
        gates[name] = torch.ones(len(groups), heads[name], device=device)
        for row, group in enumerate(groups):
            gates[name][row, list(group.get(name, ()))] = 0
    return gates


def nll(logits_LV: Tensor, subject: Subject) -> float:
    """Mean negative log-likelihood of the subject's targets, as `Subject.nll` has it."""
    targets_L = subject.targets_L.to(logits_LV.device)
    return torch.nn.functional.cross_entropy(logits_LV.float(), targets_L, ignore_index=IGNORED).item()


def _changes(subject: Subject, whole_LV: Tensor, logits_LV: Tensor) -> Iterator[Change]:
    before_L, after_L = whole_LV.argmax(-1), logits_LV.argmax(-1)
    scored_L = subject.targets_L.to(before_L.device) != IGNORED
    for position in ((before_L != after_L) & scored_L).nonzero().flatten().tolist():
        yield Change(position, *(subject.choices(int(choice_L[position])) for choice_L in (before_L, after_L)))


def _told(changes: Sequence[Change]) -> str:
    told = [f"{visible(change.before)} → {visible(change.after)}" for change in changes[:NAMED]]
    return ", ".join(told) + (", ..." if changes[NAMED:] else "")
