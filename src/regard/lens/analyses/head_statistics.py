"""Statistics of each head: how spread its weights are, how far they reach, how much is on special tokens, itself, the first key.

    entropy     of a row of weights, in nats: 0 where one key has all; log n where n keys have equal shares
    evenness    the same as a share of the most that it could be with the keys the query sees
    distance    in tokens, between a query and where it looks, weights as shares; of cross-attention there is none
    specials    weight on marks: <eos>, [CLS], [SEP], ...
    itself      weight on the query's own position
    first       weight on the first key, where heads that have nothing to do often rest (Xiao et al. 2023)
    largest     the largest weight of a row

Each is the mean over the queries. Weights are rebuilt a few rows at a time and forgotten, so that the memory it takes does not
grow with the square of a text's length. Dims: H heads, R rows at a time, M keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from matplotlib.figure import Figure
from torch import Tensor

from regard.lens.display import report
from regard.lens.plots.charts import Field, atlas, by_attention
from regard.lens.result import NotebookView
from regard.lens.subject import Subject, TokenRow
from regard.model.probe import Probe, Seen

NUMBERS = 2**20  # weights that are rebuilt at a time
MEASURES = ("entropy", "evenness", "distance", "specials", "itself", "first", "largest")


@dataclass(frozen=True)
class HeadNumbers:
    """Numbers of one head; None where a measure means nothing."""

    attention: str
    head: int
    entropy: float
    evenness: float
    distance: float | None
    specials: float
    itself: float | None
    first: float
    largest: float


@dataclass(frozen=True)
class HeadStatistics(NotebookView):
    FORMAT = "regard.heads.1"
    title: str
    tokens: Mapping[str, int]  # by stack
    heads: tuple[HeadNumbers, ...]

    def field(self, measure: str) -> dict[str, list[float]]:
        """Return a number for each head, by attention; NaN where there is none."""
        numbers = ((head.attention, getattr(head, measure)) for head in self.heads)
        return by_attention((name, float("nan") if number is None else number) for name, number in numbers)

    def lines(self) -> list[str]:
        told = ", ".join(f"{count:,} tokens in the {stack}" for stack, count in self.tokens.items())
        rows = [[head.attention, head.head, *(getattr(head, measure) for measure in MEASURES)] for head in self.heads]
        told = f"{len(self.heads)} head{'' if len(self.heads) == 1 else 's'}, means over queries; {told}"
        return report(self.title, told, ["attention", "head", *MEASURES], rows)

    def figure(self) -> Figure:
        fields = [Field(measure, self.field(measure)) for measure in MEASURES]
        return atlas(self.title, "every head: layers down, heads across; each number is a mean over queries", fields)


def head_statistics(subject: Subject, seen: Probe | None = None) -> HeadStatistics:
    """Return the statistics of one pass; `seen` if it was recorded already."""
    seen = subject.record() if seen is None else seen
    found = [row for name in seen for row in _measured(name, seen[name], *subject.around(name))]
    return HeadStatistics(subject.title, {stack: len(side) for stack, side in subject.sides.items()}, tuple(found))


def in_chunks(seen: Seen, heads: Sequence[int] | None = None) -> Iterator[tuple[Tensor, Tensor]]:
    """rows_R and their weights_HRM, a few rows at a time, of the first sequence; of these heads, all if None."""
    (_, every, length, _), memory = seen.q_BHLK.shape, seen.k_BHMK.shape[2]
    step = max(1, NUMBERS // max(1, (every if heads is None else len(heads)) * memory))
    for start in range(0, length, step):
        rows_R = torch.arange(start, min(start + step, length))
        with torch.no_grad():  # some mixers have parameters
            weights_HRM = seen.weights(heads, rows_R.tolist())[0]
        yield rows_R, weights_HRM


def _measured(name: str, seen: Seen, queries: TokenRow, keys: TokenRow) -> list[HeadNumbers]:
    """Sums over rows, a chunk at a time, divided in the end."""
    own, device = name.endswith(".self"), seen.q_BHLK.device
    special_M = torch.tensor(keys.special, device=device)
    places_M = torch.arange(len(keys), device=device)
    total = {measure: torch.zeros(seen.q_BHLK.shape[1], dtype=torch.float64, device=device) for measure in MEASURES}
    for rows_R, weights_HRM in in_chunks(seen):
        rows_R = rows_R.to(device)
        entropy_HR = -torch.special.xlogy(weights_HRM, weights_HRM).sum(-1)
        visible_R = seen.view.rows(rows_R).sum(-1).float()[0].expand(len(weights_HRM), len(rows_R))
        total["entropy"] += entropy_HR.sum(1, dtype=torch.float64)
        total["evenness"] += (entropy_HR / visible_R.clamp(min=2).log()).sum(1, dtype=torch.float64)
        total["specials"] += weights_HRM[..., special_M].sum((1, 2), dtype=torch.float64)
        total["first"] += weights_HRM[..., 0].sum(1, dtype=torch.float64)
        total["largest"] += weights_HRM.amax(-1).sum(1, dtype=torch.float64)
        if own:
            total["itself"] += weights_HRM[:, torch.arange(len(rows_R), device=device), rows_R].sum(1, dtype=torch.float64)
            total["distance"] += ((rows_R[:, None] - places_M).abs() * weights_HRM).sum((1, 2), dtype=torch.float64)
    means = {measure: (sum_H / len(queries)).tolist() for measure, sum_H in total.items()}
    if not own:
        means |= {"itself": [None] * len(means["first"]), "distance": [None] * len(means["first"])}
    return [HeadNumbers(name, head, **{m: means[m][head] for m in MEASURES}) for head in range(len(means["first"]))]
