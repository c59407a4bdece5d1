"""Heads that read an image: mean attention distance by layer as dots with arrows, and a field of shades for every measure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard.lens.display import FONT, inches
from regard.lens.plots.charts import CELL, COLOURS, GRID, Field, draw_field
from regard.lens.plots.render import INK, MARGIN, MUTED, SMALL, fitted, new_sheet, write

WIDE, HIGH = 6.2, 3.1  # inches of the chart
LEFT, BELOW = 0.75, 0.95  # inches beside and below it
GAP = 0.4
SPREAD = 0.5  # of the room of a layer, over which its heads stand side by side


class Dot(NamedTuple):
    """A head: its layer, its distance, and how far right and down it looks on the whole, in pixels."""

    layer: int
    distance: float
    right: float
    down: float


def drawn(
    title: str,
    caption: str,
    layers: Sequence[str],
    heads: Sequence[Dot],
    random: Sequence[Dot],
    even: float,
    values: Mapping[str, Sequence[Sequence[float]]],
) -> Figure:
    """Draw the chart, and below it a field for each measure; `values` by measure, layer and head."""
    fields = [Field(name, dict(zip(layers, rows)), name in ("right", "down")) for name, rows in values.items()]
    label = max(inches(layer, SMALL) for layer in layers) + 0.1
    many = max(len(row) for rows in values.values() for row in rows)
    step, tall = label + max(many * CELL, 1.2) + GAP, len(layers) * CELL + 1.0
    across = max(1, min(len(fields), int(9.5 / step)))
    width = max(2 * MARGIN + across * step - GAP, MARGIN + LEFT + WIDE)
    heading = fitted(title, caption, width, 500)
    top = MARGIN + 0.75 + heading.extra
    under = top + HIGH + BELOW
    height = under + tall * -(-len(fields) // across)
    figure, axes = new_sheet(width, height, heading)
    place = (LEFT / width, 1 - (top + HIGH) / height, (width - LEFT - MARGIN) / width, HIGH / height)
    _chart(figure.add_axes(place), layers, heads, random, even)
    for n, field in enumerate(fields):
        draw_field(axes, field, layers, MARGIN + n % across * step + label, under + n // across * tall + 0.3)
    write(axes, MARGIN, under - 0.28, "the same numbers: layers down, heads across", size=SMALL, color=MUTED)
    return figure


def _chart(axes: Axes, layers: Sequence[str], heads: Sequence[Dot], random: Sequence[Dot], even: float) -> None:
    _dots(axes, random, "#b6bfc8", "random weights", 14)
    _dots(axes, heads, COLOURS[0], "a head", 26)
    axes.axhline(even, color=COLOURS[1], linewidth=1.1, linestyle="--", label="even attention", zorder=1)
    x_H = _places(heads)
    most = max(even, *(dot.distance for dot in heads))
    scale = 0.3 * len(layers) / max(most, 1e-9)  # an arrow of the longest distance is so many layers long
    for x, dot in zip(x_H, heads):
        if np.hypot(dot.right, dot.down) > 0.08 * most:
            end = (x + dot.right * scale * 0.5, dot.distance - dot.down * 0.35)
            arrow = {"arrowstyle": "-|>", "color": COLOURS[0], "linewidth": 0.9, "shrinkA": 2.5, "shrinkB": 0}
            axes.annotate("", end, (x, dot.distance), arrowprops=arrow, zorder=2)
    axes.set_xlim(-0.6, len(layers) - 0.4)
    axes.set_ylim(0, most * 1.18)
    axes.set_xticks(range(len(layers)), [str(n) for n in range(len(layers))])
    axes.set_xlabel("layer", size=9, color=MUTED, font=FONT)
    axes.set_ylabel("mean attention distance, pixels", size=9, color=MUTED, font=FONT)
    axes.legend(frameon=False, fontsize=8, labelcolor=INK, loc="upper left", ncols=3, handlelength=1.4)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(GRID)
    axes.tick_params(colors=MUTED, labelsize=8.5, length=0)
    axes.set_axisbelow(True)
    axes.grid(color=GRID, linewidth=0.8, axis="y")


def _places(heads: Sequence[Dot]) -> np.ndarray:
    """Return where the heads stand: those of one layer side by side, in their order."""
    counts = np.bincount([dot.layer for dot in heads])
    seen, found = dict[int, int](), []
    for dot in heads:
        n = seen[dot.layer] = seen.get(dot.layer, -1) + 1
        found.append(dot.layer + SPREAD * ((n + 0.5) / counts[dot.layer] - 0.5))
    return np.array(found)


def _dots(axes: Axes, heads: Sequence[Dot], colour: str, name: str, size: float) -> None:
    if heads:
        axes.scatter(_places(heads), [dot.distance for dot in heads], s=size, c=colour, linewidths=0, label=name, zorder=3)
