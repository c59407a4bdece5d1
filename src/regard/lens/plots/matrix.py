"""Attention as a matrix of shades: queries down, keys across, one hue from paper to ink."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.patches import Rectangle

SHADES = LinearSegmentedColormap.from_list("regard.shades", ("#f6f8fa", "#cfe0ee", "#7fb0d3", "#2f6f9f", "#12385c"))
FRAME = "#d5dae0"


class Box(NamedTuple):
    """A rectangle on the sheet, in inches from its top left corner."""

    left: float
    top: float
    width: float
    height: float


def draw(axes: Axes, weights: np.ndarray, box: Box, most: float) -> None:
    """The matrix in its box, shaded from zero to `most`."""
    left, top, width, height = box
    axes.imshow(
        weights,
        cmap=SHADES,
        vmin=0.0,
        vmax=most,
        extent=(left, left + width, top + height, top),
        aspect="auto",
        interpolation="none",
        zorder=1,
    )
    axes.add_patch(Rectangle((left, top), width, height, fill=False, edgecolor=FRAME, linewidth=0.6, zorder=2))


def name_strongest(axes: Axes, weights: np.ndarray, box: Box, most: float, points: float) -> None:
    """Writes each row's greatest weight, in hundredths, into its cell."""
    across, down = box.width / weights.shape[1], box.height / weights.shape[0]
    for query, key in enumerate(weights.argmax(axis=1)):
        weight = weights[query, key]
        axes.text(
            box.left + (key + 0.5) * across,
            box.top + (query + 0.5) * down,
            f"{100 * weight:.0f}",
            color="white" if weight > 0.55 * most else "#12385c",
            fontsize=points,
            ha="center",
            va="center_baseline",
            zorder=3,
        )


def pooled(weights: np.ndarray, side: int = 64) -> np.ndarray:
    """The matrix made small enough for a thumbnail. The greatest weight of a block stands for it: sharp lines survive."""
    for axis in (0, 1):
        size = weights.shape[axis]
        starts = np.arange(min(size, side)) * size // min(size, side)
        weights = np.maximum.reduceat(weights, starts, axis=axis)
    return weights
