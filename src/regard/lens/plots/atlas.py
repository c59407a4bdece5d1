"""Every head of a model on one sheet: for each measure a field of shades, layers down and heads across."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from regard.lens.display import drawable, inches
from regard.lens.plots.alignment import draw_heading
from regard.lens.plots.layout import fitted
from regard.lens.plots.render import FRAME, INK, MUTED, SHADES, SMALL, blank, write

CELL = 0.3  # inches
GAP = 0.4
MARGIN = 0.35
ACROSS = 3  # fields beside each other
DIVERGING = LinearSegmentedColormap.from_list("regard.diverging", ("#9a3412", "#e9a178", "#f6f8fa", "#7fb0d3", "#12385c"))


class Field(NamedTuple):
    """A number for every head, by the name of its attention; NaN where it has none."""

    name: str
    values: Mapping[str, Sequence[float]]
    signed: bool = False  # shaded from both sides of zero
    full: float | None = None  # what has the darkest shade; the greatest number there is if None

    @property
    def most(self) -> float:
        if self.full is not None:
            return self.full
        found = np.concatenate([np.asarray(row, float) for row in self.values.values()] or [np.zeros(0)])
        return float(np.nanmax(np.abs(found), initial=0.0))


def drawn(title: str, caption: str, fields: Sequence[Field]) -> Figure:
    """One field a measure, three beside each other. In each, the shade's scale ends at its own greatest number, written below."""
    layers = list(dict.fromkeys(name for field in fields for name in field.values))
    heads = max((len(row) for field in fields for row in field.values.values()), default=1)
    label = max(inches(layer, SMALL) for layer in layers) + 0.1
    columns = min(ACROSS, len(fields))
    wide, tall = label + max(heads * CELL, 1.2) + GAP, len(layers) * CELL + 1.0
    width = max(2 * MARGIN + columns * wide, 6.4)
    heading = fitted(title, caption, width)
    top = MARGIN + 0.95 + heading.extra
    figure, axes = blank(width, top + tall * -(-len(fields) // columns))
    draw_heading(axes, *heading)
    for n, field in enumerate(fields):
        _draw(axes, field, layers, MARGIN + n % columns * wide + label, top + n // columns * tall + 0.3)
    return figure


def _draw(axes: Axes, field: Field, layers: Sequence[str], left: float, top: float) -> None:
    write(axes, left, top - 0.32, drawable(field.name), size=10, color=INK)
    most = field.most or 1.0
    shades: Colormap = DIVERGING if field.signed else SHADES
    for row, layer in enumerate(layers):
        y = top + row * CELL
        write(axes, left - 0.08, y + CELL / 2, layer, size=SMALL, color=MUTED, ha="right")
        values = np.asarray(field.values.get(layer, ()), float)
        if len(values):
            image, extent = np.ma.masked_invalid(values[None]), (left, left + len(values) * CELL, y + CELL, y)
            low = -most if field.signed else 0.0
            axes.imshow(image, cmap=shades, vmin=low, vmax=most, extent=extent, aspect="auto", interpolation="none", zorder=1)
            for x in left + CELL * np.arange(len(values)):
                axes.add_patch(Rectangle((x, y), CELL, CELL, fill=False, edgecolor=FRAME, linewidth=0.5, zorder=2))
    heads = max((len(row) for row in field.values.values()), default=0)
    for head in range(0, heads, 1 + heads // 16):
        write(axes, left + (head + 0.5) * CELL, top - 0.1, str(head), size=SMALL, color=MUTED, ha="center")
    least = f"{-most:.3g}" if field.signed else "0"
    write(axes, left, top + len(layers) * CELL + 0.16, f"{least} to {most:.3g}", size=SMALL, color=MUTED)
