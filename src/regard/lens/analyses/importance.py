"""Importance of heads: the slope of the loss at a head's gate, the loss without the head, or gates that are learned.

Slopes, one backward pass a text (Michel, Levy & Neubig 2019, equation 4): I_h = E |d loss / d gate_h| at gate 1. Slopes of
different layers have different sizes; by layer, they are divided by the root of the sum of their squares (Molchanov et al. 2017),
as that paper does. On small models this keeps heads that are not needed, since every layer then keeps its share; so it is a
choice. A slope is the effect of a small change; `ablation` is the effect of leaving the head out.

Learned gates, with fixed weights (Voita et al. 2019, section 5, after Louizos, Welling & Kingma 2018): a gate is drawn from a
hard concrete distribution, often exactly 0 or exactly 1 and still with a slope: u uniform, s = sigmoid((log u - log(1 - u)
+ a) / BETA), stretched from LOW to HIGH and cut to 0..1. The loss is the model's own, plus a penalty for the expected number of
open gates. Only the gates' a are trained; the probability that a gate is open is the importance of its head.

Most heads can go: the score of a model against how many of its heads are left, least important first. Michel, Levy & Neubig 2019,
section 4: heads are ordered by how important they are, and the least important ones are removed; at least one stays in every
attention. The score is the task's own, of models from which the heads are really gone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard.core.errors import UserError
from regard.lens.analyses.ablation import ablation
from regard.lens.display import Cell, report
from regard.lens.plots import charts
from regard.lens.plots.charts import Curve, Field, atlas
from regard.lens.result import NotebookView
from regard.lens.subject import Subject
from regard.model.probe import attentions, probe

Scores = Mapping[str, tuple[float, ...]]  # by attention, a number a head


@dataclass(frozen=True)
class Importance(NotebookView):
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
        return report(self.title, f"{len(rows)} heads by {self._told()}", ["rank", "attention", "head", "importance"], rows)

    def figure(self) -> Figure:
        signed = min(map(min, self.scores.values())) < 0
        return atlas(self.title, self._told(), [Field("importance", self.scores, signed=signed)])

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


def importance(subjects: Iterable[Subject], *, by_layer: bool = False) -> Importance:
    """Over texts of one model; `by_layer` makes the heads of every attention equally important together."""
    return _mean(subjects, slopes, "slope of the loss at each gate" + ", by layer" * by_layer, by_layer)


def leave_one_out(subjects: Iterable[Subject]) -> Importance:
    """Return how much the loss grows without each head, as the mean over texts."""
    return _mean(subjects, lambda subject: {name: torch.tensor(row) for name, row in ablation(subject).field().items()},
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


def _mean(
    subjects: Iterable[Subject], measure: Callable[[Subject], Mapping[str, Tensor]], method: str, by_layer: bool = False
) -> Importance:
    title, texts, total = "", 0, dict[str, Tensor]()
    for subject in subjects:
        title, texts = title or subject.title, texts + 1
        for name, row in measure(subject).items():
            total[name] = total.get(name, 0) + row.double()
    if not texts:
        raise UserError("there is no text to measure heads on; give a file with one or more.")
    means = {name: row / texts for name, row in total.items()}
    if by_layer:
        means = {name: row / row.norm().clamp(min=1e-30) for name, row in means.items()}
    title = title if texts == 1 else f"{title}, and {texts - 1} more"
    return Importance(title, method, texts, {name: tuple(row.tolist()) for name, row in means.items()})


BETA, LOW, HIGH = 2 / 3, -0.1, 1.1
OPEN = 2.0  # where a begins: nearly open, so that training starts from the model as it is
RATE = 0.05
STEPS = 300
PENALTY = 0.01  # of one more gate open, beside a loss in nats a token


class LearnedGates:
    """One number a head, of all attentions of a model."""

    def __init__(self, model: nn.Module, seed: int) -> None:
        device = next(model.parameters()).device
        self.a = {
            name: torch.full((one.heads,), OPEN, device=device, requires_grad=True) for name, one in attentions(model).items()
        }
        self.draw = torch.Generator().manual_seed(seed)

    def drawn(self) -> dict[str, Tensor]:
        return {name: hard_concrete(a_H, torch.rand(len(a_H), generator=self.draw).to(a_H)) for name, a_H in self.a.items()}

    def chances(self) -> dict[str, Tensor]:
        """Return the probability of each gate to be nonzero."""
        return {name: torch.sigmoid(a_H - BETA * math.log(-LOW / HIGH)) for name, a_H in self.a.items()}


def hard_concrete(a_H: Tensor, u_H: Tensor) -> Tensor:
    """A gate for each uniform number between 0 and 1."""
    u_H = u_H.clamp(1e-6, 1 - 1e-6)
    s_H = torch.sigmoid((u_H.log() - (-u_H).log1p() + a_H) / BETA)
    return (s_H * (HIGH - LOW) + LOW).clamp(0, 1)


def learn_gates(
    model: nn.Module, loss: Callable[[int], Tensor], *, steps: int = STEPS, penalty: float = PENALTY, seed: int = 0
) -> Importance:
    """`loss` of a step's batch, a mean, computed by the model while a probe holds the gates. No weight changes."""
    if steps < 1 or penalty < 0:
        raise UserError(f"gates need 1 step or more and a penalty of 0 or more, not {steps} and {penalty:g}.")
    gates = LearnedGates(model, seed)
    optimizer = torch.optim.Adam(gates.a.values(), lr=RATE)
    training = model.training
    model.eval()  # no dropout: gates alone are to be uncertain
    for step in range(steps):
        with torch.enable_grad(), probe(model, gates=gates.drawn()) as looking:
            looking.recording = False
            total = loss(step) + penalty * torch.stack([chance_H.sum() for chance_H in gates.chances().values()]).sum()
            slopes = torch.autograd.grad(total, list(gates.a.values()), allow_unused=True)
        for a_H, slope_H in zip(gates.a.values(), slopes):
            a_H.grad = slope_H
        optimizer.step()
    model.train(training)
    scores = {name: tuple(chance_H.detach().float().cpu().tolist()) for name, chance_H in gates.chances().items()}
    opened = sum(chance > 0.5 for row in scores.values() for chance in row)
    heads = sum(map(len, scores.values()))
    title = f"learned gates: {opened} of {heads} heads stay open at a penalty of {penalty:g}"
    return Importance(title, "learned gates (L0)", 0, scores)


POINTS = 10
Removed = dict[str, list[int]]  # heads by attention
Head = tuple[str, int]


@dataclass(frozen=True)
class Point:
    kept: int
    score: float
    removed: dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class PruningCurve(NotebookView):
    FORMAT = "regard.pruning.1"
    title: str
    by: str
    heads: int  # of the model as it was
    metric: str
    higher_is_better: bool
    examples: str  # what it was scored on, for people
    points: tuple[Point, ...]  # most heads first

    def lines(self) -> list[str]:
        whole = self.points[0].score
        rows: list[list[Cell]] = [[p.kept, f"{p.kept / self.heads:.0%}", p.score, p.score - whole] for p in self.points]
        better = "" if self.higher_is_better else " (lower is better)"
        told = f"heads removed by {self.by}, least important first; {self.metric}{better} on {self.examples}"
        return report(self.title, told, ["heads", "kept", self.metric, "change"], rows)

    def figure(self) -> Figure:
        shares = [100 * point.kept / self.heads for point in self.points]
        found = {self.by: Curve(shares, [point.score for point in self.points])}
        return charts.curves(self.title, f"{self.metric} on {self.examples}", found, "% of heads kept", self.metric)


def order_of_removal(scores: Scores) -> list[Head]:
    """Least important first. The last head of an attention is not among them: it stays."""
    found = sorted(
        ((score, name, head) for name, row in scores.items() for head, score in enumerate(row)), key=lambda row: row[0]
    )
    left = {name: len(row) for name, row in scores.items()}
    order = []
    for _, name, head in found:
        if left[name] > 1:
            left[name] -= 1
            order.append((name, head))
    return order


def without_first(order: Sequence[Head], count: int) -> Removed:
    return {name: sorted(heads) for name, heads in charts.by_attention(order[:count]).items()}


def kept_count(keep: float, scores: Scores) -> int:
    """Return the number of heads that a share of them is; at least one for every attention."""
    heads, least = sum(map(len, scores.values())), len(scores)
    if not 0 < keep <= 1:
        raise UserError(f"--keep {keep:g} is not a share of the heads; give a number above 0 and up to 1, such as 0.5.")
    if round(keep * heads) < least:
        raise UserError(
            f"--keep {keep:g} is {round(keep * heads)} of {heads} heads, but each of the {least} attentions keeps one; give "
            f"{least / heads:.2g} or more."
        )
    return round(keep * heads)


def counts(heads: int, least: int, also: Sequence[int] = ()) -> list[int]:
    """Return the numbers of heads that the points of a curve keep, largest first: evenly spaced, and these."""
    spaced = {round(heads - (heads - least) * n / POINTS) for n in range(POINTS + 1)}
    return sorted(spaced | {*also}, reverse=True)


def random_scores(like: Scores, seed: int = 0) -> Importance:
    """Return random scores: the baseline that any order of removal should beat."""
    draw = torch.Generator().manual_seed(seed)
    scores = {name: tuple(torch.rand(len(row), generator=draw).tolist()) for name, row in like.items()}
    return Importance("heads in an order drawn at random", f"chance, seed {seed}", 0, scores)


def scored_at(order: Sequence[Head], heads: int, kept: Sequence[int], score: Callable[[Removed], float]) -> tuple[Point, ...]:
    """`score` of the model without the first heads of an order, for each number of those that are kept."""
    found = []
    for count in kept:
        removed = without_first(order, heads - count)
        found.append(Point(count, score(removed), {name: tuple(gone) for name, gone in removed.items()}))
    return tuple(found)
