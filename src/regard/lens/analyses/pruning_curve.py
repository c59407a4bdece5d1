"""Most heads can go: the score of a model against how many of its heads are left, least important first.

Michel, Levy & Neubig 2019, section 4: heads are ordered by how important they are, and the least important ones are removed; at
least one stays in every attention. The score is the task's own, of models from which the heads are really gone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from matplotlib.figure import Figure

from regard.core.errors import UserError
from regard.lens.analyses.importance import Importance, Scores
from regard.lens.display import Cell, sentence, table
from regard.lens.plots import charts
from regard.lens.plots.charts import Curve
from regard.lens.result import NotebookView

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
        return [
            sentence(self.title),
            f"heads removed by {self.by}, least important first; {self.metric}{better} on {self.examples}",
            "",
            *table(["heads", "kept", self.metric, "change"], rows),
        ]

    def figure(self) -> Figure:
        shares = [100 * point.kept / self.heads for point in self.points]
        found = {self.by: Curve(shares, [point.score for point in self.points])}
        return charts.curves(self.title, f"{self.metric} on {self.examples}", found, "% of heads kept", self.metric)

    def as_dict(self) -> dict[str, Any]:
        return {
            "format": "regard.pruning.1",
            "title": self.title,
            "by": self.by,
            "heads": self.heads,
            "metric": self.metric,
            "higher_is_better": self.higher_is_better,
            "examples": self.examples,
            "points": [
                {"kept": p.kept, "score": p.score, "removed": {name: list(heads) for name, heads in p.removed.items()}}
                for p in self.points
            ],
        }


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
    removed: Removed = {}
    for name, head in order[:count]:
        removed.setdefault(name, []).append(head)
    return {name: sorted(heads) for name, heads in removed.items()}


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
