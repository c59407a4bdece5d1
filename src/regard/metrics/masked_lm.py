"""Scores of masked language models and of replaced token detection.

Only masked words are scored by the former. Of all words only a few percent are replaced, so accuracy says little: `found` is the
recall of replaced words, `true` the precision.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from regard.data.batching.masked import MaskedBatch
from regard.objectives.base import Objective


@dataclass(frozen=True)
class FillScores:
    """Scores on masked words."""

    nll: float  # of a masked word
    masked: int
    accuracy: float | None = None  # of masked words
    next_accuracy: float | None = None  # of passages whose second text does or does not follow
    judged: Judged | None = None
    outputs: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        right = "" if self.accuracy is None else f", {100 * self.accuracy:.1f}% filled in rightly"
        lines = [f"masked words      {self.masked:,}{right}; {self.nll:.3f} nats each"]
        if self.next_accuracy is not None:
            lines += [f"next sentence     {100 * self.next_accuracy:.1f}% right"]
        return lines + (self.judged.lines() if self.judged else [])

    def metrics(self) -> dict[str, float]:
        """Return the metrics for the log of a training, "nll" among them."""
        known = {"nll": self.nll, "accuracy": self.accuracy, "next_accuracy": self.next_accuracy}
        return {name: value for name, value in known.items() if value is not None} | (vars(self.judged) if self.judged else {})

    def as_dict(self) -> dict[str, Any]:
        return {"masked": self.masked, **self.metrics()}


@dataclass(frozen=True)
class Judged:
    """Scores of replaced token detection over all words."""

    judged_nll: float
    judged_accuracy: float
    replaced: float  # share of all words
    found: float
    true: float

    def lines(self) -> list[str]:
        return [
            f"replaced words    {100 * self.replaced:.1f}% of all; {100 * self.found:.1f}% of them found, and of those taken for "
            f"replaced {100 * self.true:.1f}% are",
            f"all words         {100 * self.judged_accuracy:.1f}% judged rightly; {self.judged_nll:.4f} nats each",
        ]


@torch.no_grad()
def score_filling(model: nn.Module, objective: Objective, batches: Iterable[MaskedBatch]) -> FillScores:
    """Return the scores of a model over batches."""
    device, sums = next(model.parameters()).device, Counter[str]()
    for batch in batches:
        parts = objective(model, batch.to(device)).parts
        sums.update({name: part.item() for name, part in parts.items()})
        sums.update(masked=len(batch.targets_M), passages=len(batch.wanted_N))
    masked = max(1, sums["masked"])
    nll = sums["nll"] / masked
    if "judged" in sums:
        judged, replaced, said = (max(1, sums[name]) for name in ("judged", "replaced", "said"))
        shares = sums["right"] / judged, sums["replaced"] / judged, sums["found"] / replaced, sums["found"] / said
        return FillScores(nll, sums["masked"], judged=Judged(sums["judged_nll"] / judged, *shares))
    following = sums["next_right"] / sums["passages"] if "next_right" in sums else None
    return FillScores(nll, sums["masked"], sums["right"] / masked, following)
