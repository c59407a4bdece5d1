"""How much the loss hangs on each head, by one backward pass a text: the slope of the loss at the head's gate.

Michel, Levy & Neubig 2019, equation 4: I_h = E |d loss / d gate_h|, the gate being 1. Slopes of different layers are of different
sizes; by layer, they are divided by the root of the sum of their squares (Molchanov et al. 2017), as that paper does. On small
models that spares heads nobody needs, for every layer then has its share of those that stay; so here it is a choice. A slope is
what a small change does: `ablation` is what it does to be without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from matplotlib.figure import Figure

from regard.core.errors import UserError
from regard.lens.analyses.ablation import ablation
from regard.lens.display import sentence
from regard.lens.output.text import Cell, table
from regard.lens.plots import atlas
from regard.lens.plots.atlas import Field
from regard.lens.result import fragment
from regard.lens.subject import Subject
from regard.model.probe import attentions, probe

Scores = Mapping[str, tuple[float, ...]]  # by attention, a number a head


@dataclass(frozen=True)
class Importance:
    title: str
    method: str
    texts: int
    scores: Scores

    def ranked(self) -> list[tuple[str, int, float]]:
        """Most important first."""
        found = [(name, head, score) for name, scores in self.scores.items() for head, score in enumerate(scores)]
        return sorted(found, key=lambda row: -row[2])

    def lines(self) -> list[str]:
        rows: list[list[Cell]] = [[rank, *row] for rank, row in enumerate(self.ranked(), 1)]
        return [
            sentence(self.title),
            f"{len(rows)} heads by {self._told()}",
            "",
            *table(["rank", "attention", "head", "importance"], rows),
        ]

    def figure(self) -> Figure:
        signed = min(map(min, self.scores.values())) < 0
        return atlas.drawn(self.title, self._told(), [Field("importance", self.scores, signed=signed)])

    def _told(self) -> str:
        return f"{self.method}; mean over {self.texts} text{'s' if self.texts != 1 else ''}" if self.texts else self.method

    def as_dict(self) -> dict[str, Any]:
        return {
            "format": "regard.importance.1",
            "title": self.title,
            "method": self.method,
            "texts": self.texts,
            "heads": [{"attention": name, "head": head, "importance": score} for name, head, score in self.ranked()],
        }

    def _repr_html_(self) -> str:
        return fragment(self)


def importance(subjects: Iterable[Subject], *, by_layer: bool = False) -> Importance:
    """Over texts of one model; `by_layer` makes the heads of every attention equally important together."""
    found = _mean(subjects, slopes)
    if by_layer:
        found.scores = {name: row / row.norm().clamp(min=1e-30) for name, row in found.scores.items()}
    return _told(found, "slope of the loss at each gate" + (", by layer" if by_layer else ""))


def leave_one_out(subjects: Iterable[Subject]) -> Importance:
    """How much the loss grows without each head, in the mean over texts."""
    return _told(_mean(subjects, lambda subject: {name: torch.tensor(row) for name, row in ablation(subject).field().items()}),
                 "loss without each head")  # fmt: skip


def slopes(subject: Subject) -> dict[str, torch.Tensor]:
    """|d nll / d gate| by attention, a number a head."""
    device = next(subject.model.parameters()).device
    gates = {name: torch.ones(a.heads, device=device, requires_grad=True) for name, a in attentions(subject.model).items()}
    with torch.enable_grad(), probe(subject.model, gates=gates) as looking:
        looking.recording = False
        found = torch.autograd.grad(subject.nll().sum(), list(gates.values()), allow_unused=True)
    return {
        name: torch.zeros(len(gate)) if slope is None else slope.abs().float().cpu()
        for (name, gate), slope in zip(gates.items(), found)
    }


@dataclass
class _Mean:
    title: str
    texts: int
    scores: dict[str, torch.Tensor]


def _mean(subjects: Iterable[Subject], measure: Callable[[Subject], Mapping[str, torch.Tensor]]) -> _Mean:
    title, texts, total = "", 0, dict[str, torch.Tensor]()
    for subject in subjects:
        title, texts = title or subject.title, texts + 1
        for name, row in measure(subject).items():
            total[name] = total.get(name, 0) + row.double()
    if not texts:
        raise UserError("there is no text to measure heads on; give a file with one or more.")
    return _Mean(
        title if texts == 1 else f"{title}, and {texts - 1} more", texts, {name: row / texts for name, row in total.items()}
    )


def _told(found: _Mean, method: str) -> Importance:
    return Importance(found.title, method, found.texts, {name: tuple(row.tolist()) for name, row in found.scores.items()})
