"""Parts of every drawn sheet: type, matrices of shades, and the bytes of its file."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from threading import Lock
from typing import Literal, NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from regard.lens.display import FONT

INK, MUTED = "#1b2430", "#66717e"
DOTS_PER_INCH = 160
SMALL = 8.0  # points

_DRAWING = Lock()  # matplotlib's settings belong to the process, so two threads must not draw at once
_METADATA: dict[str, dict[str, None]] = {"png": {"Software": None}, "svg": {"Date": None}}  # left out: the same file every time


def render_figure(drawn: Callable[[], Figure], kind: Literal["png", "svg"]) -> bytes:
    file = BytesIO()
    with _DRAWING, matplotlib.rc_context():
        matplotlib.rcdefaults()  # a person's own style must not restyle the sheet; the context gives it back
        matplotlib.rcParams["svg.fonttype"] = "none"  # words stay words
        matplotlib.rcParams["svg.hashsalt"] = "regard"  # the same names inside the file every time
        matplotlib.rcParams["image.composite_image"] = False  # each image stays one
        drawn().savefig(file, format=kind, dpi=DOTS_PER_INCH, metadata=_METADATA[kind])
    return file.getvalue()


def blank(width: float, height: float) -> tuple[Figure, Axes]:
    """A new sheet, with one pair of axes that covers it and measures it in inches from its top left corner."""
    figure = Figure(figsize=(width, height), facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(height, 0), autoscale_on=False)
    axes.set_axis_off()
    return figure, axes


def write(axes: Axes, x: float, y: float, text: str, *, size: float, color: str, ha: str = "left", turn: float = 0) -> None:
    # parse_math off: a token such as "$x$" is text, not a formula
    anchor = "anchor" if turn else "default"
    axes.text(
        x, y, text, fontproperties=FONT, fontsize=size, color=color, ha=ha, va="center_baseline",
        rotation=turn, rotation_mode=anchor, parse_math=False, zorder=4,
    )  # fmt: skip


SHADES = LinearSegmentedColormap.from_list("regard.shades", ("#f6f8fa", "#cfe0ee", "#7fb0d3", "#2f6f9f", "#12385c"))
FRAME = "#d5dae0"


class Box(NamedTuple):
    """A rectangle on the sheet, in inches from its top left corner."""

    left: float
    top: float
    width: float
    height: float


def draw_matrix(axes: Axes, weights: np.ndarray, box: Box, most: float) -> None:
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
