"""Numbers of every head by distance: a picture of shades, heads down and distances across, and below it a line a head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from regard.lens.display import FONT, drawable
from regard.lens.plots.charts import GRID, name_range, shade
from regard.lens.plots.render import FRAME, INK, MUTED, SMALL, colours, fitted, new_sheet, write

WIDTH, LEFT, RIGHT = 7.6, 1.05, 0.95  # inches of the sheet, and beside what is drawn
ROW, LINES, TOP = 0.2, 2.0, 1.5  # inches: a head's row of shades, the axes of lines, above the first panel
NAME, BETWEEN, BELOW = 0.16, 0.5, 0.75  # inches: under a panel's name, from its shades to its lines, from there to the next

NAMED = 12  # lines that a legend has room for


class Panel(NamedTuple):
    """Numbers by head and distance, with the name of what they belong to."""

    name: str
    distances: Sequence[int]
    values_HR: Sequence[Sequence[float]]


def drawn(title: str, caption: str, panels: Sequence[Panel]) -> Figure:
    """Draw one panel below the other."""
    heading = fitted(title, caption, WIDTH)
    heights = [len(panel.values_HR) * ROW + BETWEEN + LINES + BELOW for panel in panels]
    top = TOP + heading.extra
    figure, axes = new_sheet(WIDTH, top + sum(heights), heading)
    high = top + sum(heights)
    for panel, height in zip(panels, heights):
        bottom = _picture(axes, panel, top)
        shares = (LEFT / WIDTH, 1 - (bottom + BETWEEN + LINES) / high, 1 - (LEFT + RIGHT) / WIDTH, LINES / high)
        _lines(figure.add_axes(shares), panel)
        top += height
    return figure


def _picture(axes: Axes, panel: Panel, top: float) -> float:
    """Draw the shades; return where they end."""
    values_HR, right = np.asarray(panel.values_HR, float), WIDTH - RIGHT
    bottom, most = top + len(values_HR) * ROW, float(np.abs(values_HR).max(initial=0.0)) or 1.0
    write(axes, LEFT, top - NAME, drawable(panel.name), size=10, color=INK)
    shade(axes, values_HR, most, (LEFT, right, bottom, top), True)
    axes.add_patch(Rectangle((LEFT, top), right - LEFT, bottom - top, fill=False, edgecolor=FRAME, linewidth=0.6, zorder=2))
    for head in range(len(values_HR)):
        write(axes, LEFT - 0.08, top + (head + 0.5) * ROW, f"head {head}", size=SMALL, color=MUTED, ha="right")
    name_range(axes, LEFT, bottom + 0.16, most, True)
    return bottom


def _lines(axes: Axes, panel: Panel) -> None:
    heads = len(panel.values_HR)
    for head, (values, colour) in enumerate(zip(panel.values_HR, colours(heads))):
        name = None if head % (1 + (heads - 1) // NAMED) else f"head {head}"
        axes.plot(panel.distances, values, color=colour, linewidth=1.3, label=name)
    axes.set_xlim(panel.distances[0] - 0.5, panel.distances[-1] + 0.5)  # as the picture above
    axes.set_xlabel("distance: key - query", size=9, color=MUTED, font=FONT)
    axes.set_ylabel("added to scores", size=9, color=MUTED, font=FONT)
    axes.legend(frameon=False, fontsize=7, labelcolor=INK, handlelength=1.2, loc="upper left", bbox_to_anchor=(1.0, 1.05))
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(GRID)
    axes.tick_params(colors=MUTED, labelsize=8, length=0)
    axes.grid(color=GRID, linewidth=0.8)
