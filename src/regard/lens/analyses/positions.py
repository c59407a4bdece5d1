"""Analysis of position vectors: is the next one a rotation of this one, and how similar are two by their distance?

Vaswani et al. 2017, section 3.5: for any offset k, PE(pos + k) is a linear function of PE(pos). Of any table, the linear map that
leads from each position to the one k further is fitted on every other position and tried on those between: sinusoids are
predicted to rounding, and how well a learned table is says how much of its geometry is such a turn. Similarity is the cosine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import nn

from regard.core.errors import UserError
from regard.lens.analyses.grid_positions import GridPositions, compared, grid_positions
from regard.lens.display import table
from regard.lens.plots import charts
from regard.lens.plots.charts import Curve
from regard.lens.result import NotebookView
from regard.model.embedding import Embed, InputPositions, Learned, Pixels
from regard.model.position.base import Position

MOST = 512  # positions that are looked at
OFFSETS = (1, 2, 3, 5, 8, 13, 21, 34)
SMALLEST = 1e-6  # of the largest singular value: directions in which positions do not differ are left out


@dataclass(frozen=True)
class PositionAnalysis(NotebookView):
    FORMAT = "regard.positions.1"
    title: str
    kind: str
    positions: int
    width: int
    cosine: tuple[float, ...]  # by distance from 0: mean cosine
    spread: tuple[float, ...]  # standard deviation over pairs that far apart
    linear_map: Mapping[int, float]  # by offset: share of what a linear map does not predict of positions it was not fitted on
    one_vector: Mapping[int, float]  # the same of a map that always adds one vector: the least one should do better than
    directions: float  # in how many directions positions differ: (sum s)^2 / sum s^2 of their variances

    def lines(self) -> list[str]:
        apart = [n for n in (0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 511) if n < len(self.cosine)]
        return [
            f"{self.title}: {self.kind} positions, {self.positions:,} of width {self.width}",
            f"they differ in about {self.directions:.0f} directions",
            "",
            *table(["distance", "cosine", "spread"], [[n, self.cosine[n], self.spread[n]] for n in apart]),
            "",
            "a linear map from position p to p + k, tried where it was not fitted: 0 is exact, 1 no better than the mean",
            *table(["k", "linear map", "adding a vector"], [[k, off, self.one_vector[k]] for k, off in self.linear_map.items()]),
        ]

    def figure(self) -> Figure:
        found = {"cosine": Curve(range(len(self.cosine)), self.cosine, self.spread)}
        found |= {"off by linear map": Curve(list(self.linear_map), list(self.linear_map.values()))}
        caption = f"{self.kind} positions: how alike they are by distance (shaded: its spread); how far a linear map by k is off"
        return charts.curves(self.title, caption, found, "distance, or k", "cosine, or share not predicted")


def positions_of(model: nn.Module, title: str) -> PositionAnalysis | GridPositions:
    """Return the position vectors: of an image's patches, or of tokens; of the stack that writes if there are two tables."""
    if (vectors := grid_positions(model)) is not None:
        return compared(vectors, title)
    found = [module.positions for module in model.modules() if isinstance(module, Embed)]
    if not found or found[-1].kind == "none":
        raise UserError("this model has no positions (model.position=none), so there is nothing to show.")
    if type(found[-1].scheme) is Position:
        raise UserError(
            f"model.position={found[-1].kind} acts inside attention, and there are no vectors of positions to show; --show bias "
            "shows what a distance adds to scores, where it adds something."
        )
    return analysed(found[-1], title)


@torch.no_grad()
def analysed(positions: InputPositions, title: str) -> PositionAnalysis:
    places = min(MOST, positions.scheme.maximum) if isinstance(positions.scheme, Learned) else MOST
    device = next(iter([*positions.parameters(), *positions.buffers()])).device
    vectors = positions(torch.arange(places, device=device))
    assert vectors is not None
    table_LD = vectors.double().cpu().numpy()
    alike, spread = _by_distance(table_LD)
    offsets = [k for k in OFFSETS if places - k >= 8]
    variances = np.linalg.svd(table_LD - table_LD.mean(0), compute_uv=False) ** 2
    return PositionAnalysis(
        title,
        "row-and-column" if isinstance(positions.scheme, Pixels) else positions.kind,
        places,
        table_LD.shape[1],
        alike,
        spread,
        {k: _unpredicted(table_LD, k, _linear) for k in offsets},
        {k: _unpredicted(table_LD, k, _shifted) for k in offsets},
        float(variances.sum() ** 2 / max((variances**2).sum(), 1e-300)),
    )


def _by_distance(table_LD: np.ndarray) -> tuple[tuple[float, ...], tuple[float, ...]]:
    unit_LD = table_LD / np.maximum(np.linalg.norm(table_LD, axis=1, keepdims=True), 1e-300)
    cosine_LL = unit_LD @ unit_LD.T
    diagonals = [np.diagonal(cosine_LL, k) for k in range(len(table_LD))]
    return tuple(float(d.mean()) for d in diagonals), tuple(float(d.std()) for d in diagonals)


def _unpredicted(table_LD: np.ndarray, k: int, fit: Any) -> float:
    """Share of the variance between positions that a map fitted on even ones leaves of the odd ones."""
    before, after = table_LD[:-k], table_LD[k:]
    predicted = fit(before[::2], after[::2], before[1::2])
    left = np.square(after[1::2] - predicted).sum()
    return float(left / max(np.square(after[1::2] - after[::2].mean(0)).sum(), 1e-300))


def _linear(before: np.ndarray, after: np.ndarray, asked: np.ndarray) -> np.ndarray:
    return np.asarray(asked @ (np.linalg.pinv(before, rcond=SMALLEST) @ after))


def _shifted(before: np.ndarray, after: np.ndarray, asked: np.ndarray) -> np.ndarray:
    return asked + (after - before).mean(0)
