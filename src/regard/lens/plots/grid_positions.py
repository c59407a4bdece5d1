"""A grid of small pictures, each of which stands at the place it is about: the similarity of one place with all others."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from regard.lens.plots.charts import name_range, shade
from regard.lens.plots.render import MARGIN, MUTED, SMALL, fitted, new_sheet, write

SIDE, GAP = 7.0, 0.04  # inches of the longer side of the grid, and between pictures
MOST = 16  # pictures along a side; of a larger grid some places are left out, evenly


def drawn(title: str, caption: str, cosine_YXYX: np.ndarray) -> Figure:
    """Draw as many places as fit; orange is unlike, blue alike."""
    rows, columns = cosine_YXYX.shape[:2]
    down, across = (_some(count) for count in (rows, columns))
    tile = SIDE / max(len(down), len(across))
    high, wide = (max(0.12, tile * min(1.0, side / max(rows, columns)) - GAP) for side in (rows, columns))
    left = MARGIN + 0.35
    width = max(left + len(across) * (wide + GAP) + MARGIN, 6.4)
    heading = fitted(title, caption, width)
    top = MARGIN + heading.height + 0.45
    figure, axes = new_sheet(width, top + len(down) * (high + GAP) + 0.6, heading)
    for n, row in enumerate(down):
        y = top + n * (high + GAP)
        write(axes, left - 0.1, y + high / 2, str(row + 1), size=SMALL, color=MUTED, ha="right")
        for m, column in enumerate(across):
            x = left + m * (wide + GAP)
            shade(axes, cosine_YXYX[row, column], 1.0, (x, x + wide, y + high, y), True)
            if n == 0:
                write(axes, x + wide / 2, top - 0.12, str(column + 1), size=SMALL, color=MUTED, ha="center")
    name_range(axes, left, top + len(down) * (high + GAP) + 0.18, 1.0, True)
    return figure


def _some(count: int) -> list[int]:
    """Return the numbers of the places that are drawn, the first and the last among them."""
    return sorted({round(n * (count - 1) / max(1, min(count, MOST) - 1)) for n in range(min(count, MOST))})
