"""Attention as lines: two columns of tokens, and a curve for every weight that is worth seeing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.colors import LinearSegmentedColormap, to_hex
from matplotlib.path import Path as Curve

LEAST_SHARE = 0.05  # of the greatest weight
MOST_LINES = 800

# Mid-tones that hold on white and on black, in an order whose neighbours blend; a token's colour tells its place.
_SWEEP = ("#2f6db5", "#1f8a8c", "#4f9a5b", "#b8912c", "#d0693b", "#b8456b", "#7f5bb0")
_HUES = LinearSegmentedColormap.from_list("regard.places", _SWEEP)


def colours(count: int) -> list[str]:
    """A colour for each of `count` keys, sweeping from the first to the last."""
    return [to_hex(_HUES(place)) for place in (np.arange(count) + 0.5) / count]


@dataclass(frozen=True)
class Strand:
    query: int
    key: int
    weight: float


def strands(weights: np.ndarray) -> list[Strand]:
    """The pairs to draw, weakest first so that strong lines lie on top."""
    queries, keys = np.nonzero(weights >= LEAST_SHARE * weights.max())
    found = [Strand(int(q), int(k), float(weights[q, k])) for q, k in zip(queries, keys)]
    return sorted(found, key=lambda strand: strand.weight)[-MOST_LINES:]


def draw(axes: Axes, weights: np.ndarray, start: np.ndarray, end: np.ndarray) -> None:
    """Curves from key points `start` (keys, 2) to query points `end` (queries, 2), in the axes' own units."""
    shown = strands(weights)
    hues = colours(weights.shape[1])
    strongest = weights.argmax(axis=1)
    most = shown[-1].weight
    axes.add_collection(
        PathCollection(
            [_curve(start[strand.key], end[strand.query]) for strand in shown],
            facecolors="none",
            edgecolors=[_ink(hues[strongest[strand.query]], strand.weight / most) for strand in shown],
            linewidths=[0.4 + 2.4 * strand.weight / most for strand in shown],
            capstyle="butt",
        ),
        autolim=False,
    )
    axes.scatter(start[:, 0], start[:, 1], s=9, c=hues, linewidths=0, zorder=3)
    axes.scatter(end[:, 0], end[:, 1], s=9, c=[hues[key] for key in strongest], linewidths=0, zorder=3)


def _curve(start: np.ndarray, end: np.ndarray) -> Curve:
    middle = (start[0] + end[0]) / 2
    corners = [tuple(start), (middle, start[1]), (middle, end[1]), tuple(end)]
    return Curve(corners, [Curve.MOVETO, Curve.CURVE4, Curve.CURVE4, Curve.CURVE4])


def _ink(hue: str, share: float) -> str:
    opacity = 0.05 + 0.85 * share**0.85
    return f"{hue}{round(255 * opacity):02x}"
