"""Shares as bars, each with marks for what it should be held against: a baseline, another model."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from regard.lens.display import drawable, inches, sentence
from regard.lens.plots.alignment import draw_heading
from regard.lens.plots.layout import CAPTION_POINTS, wrapped
from regard.lens.plots.render import INK, MUTED, SMALL, blank, write

MARGIN, ROW, LENGTH = 0.45, 0.25, 4.2  # inches; LENGTH is that of a share of one
COLOURS = ("#7fb0d3", "#c2410c", "#4a55a8", "#b08900")
GRID = "#dfe3e8"


class Bar(NamedTuple):
    name: str
    shares: Sequence[float]  # its own, then those it is held against; NaN where there is none


def bars(title: str, caption: str, names: Sequence[str], rows: Sequence[Bar]) -> Figure:
    """`names` say what a bar and its marks are."""
    labels = [drawable(sentence(row.name), 48) for row in rows]
    left = MARGIN + max(inches(label, 9.0) for label in labels) + 0.12
    width = left + LENGTH + MARGIN + 0.4
    told = wrapped(drawable(caption, 300), CAPTION_POINTS, width - 2 * MARGIN)
    top = MARGIN + 0.3 + 0.18 * len(told) + 0.55
    figure, axes = blank(width, top + ROW * len(rows) + 0.55)
    draw_heading(axes, [drawable(sentence(title), int((width - 2 * MARGIN) / 0.115))], told)
    _legend(axes, names, left, top - 0.3)
    _scale(axes, left, top, top + ROW * len(rows))
    for n, (label, row) in enumerate(zip(labels, rows)):
        y = top + ROW * (n + 0.5)
        write(axes, left - 0.1, y, label, size=9.0, color=INK, ha="right")
        own = max(0.0, row.shares[0])
        axes.add_patch(Rectangle((left, y - 0.08), LENGTH * own, 0.16, color=COLOURS[0], linewidth=0, zorder=2))
        write(axes, left + LENGTH + 0.1, y, f"{row.shares[0]:.2f}", size=SMALL, color=MUTED)
        for share, colour in zip(row.shares[1:], COLOURS[1:]):
            if not isnan(share):
                x = left + LENGTH * max(0.0, share)
                axes.plot([x, x], [y - 0.1, y + 0.1], color=colour, linewidth=2, zorder=3)
    return figure


def _legend(axes: Axes, names: Sequence[str], left: float, y: float) -> None:
    for name, colour in zip(names, COLOURS):
        axes.add_patch(Rectangle((left, y - 0.05), 0.12, 0.1, color=colour, linewidth=0, zorder=2))
        write(axes, left + 0.17, y, drawable(name), size=SMALL, color=MUTED)
        left += 0.35 + inches(drawable(name), SMALL)


def _scale(axes: Axes, left: float, top: float, bottom: float) -> None:
    for share in (0, 0.25, 0.5, 0.75, 1):
        x = left + LENGTH * share
        axes.plot([x, x], [top, bottom], color=GRID, linewidth=0.8, zorder=1)
        write(axes, x, bottom + 0.16, f"{share:g}", size=SMALL, color=MUTED, ha="center")
