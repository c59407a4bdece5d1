"""Draw forecasts behind what they continue: a panel for each channel, the interval shaded.

Dims: T times that are past, H times ahead.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import NamedTuple

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from regard.lens.display import drawable
from regard.lens.plots.charts import COLOURS, GRID
from regard.lens.plots.render import INK, MUTED

MOST = 8  # panels
WIDE, TALL, ABOVE = 9.0, 1.7, 0.6  # inches


class Shown(NamedTuple):
    name: str
    past_T: np.ndarray
    values_H: np.ndarray
    interval: tuple[np.ndarray, np.ndarray] | None
    share: str = ""  # of the values that the interval should hold


def draw_forecasts(shown: Sequence[Shown], title: str) -> bytes:
    """Return a picture of the first forecasts as a PNG file."""
    panels = shown[:MOST]
    figure = Figure(figsize=(WIDE, ABOVE + TALL * len(panels)), dpi=120, facecolor="white")
    FigureCanvasAgg(figure)
    more = f" (the first {MOST} of {len(shown)})" if len(shown) > MOST else ""
    figure.suptitle(drawable(title, 90) + more, fontsize=11, color=INK, x=0.01, ha="left", parse_math=False)
    for n, one in enumerate(panels):
        axes = figure.add_subplot(len(panels), 1, n + 1)
        past, ahead = np.arange(-len(one.past_T) + 1, 1), np.arange(1, len(one.values_H) + 1)
        axes.plot(past, one.past_T, color=INK, linewidth=0.9, label="past")
        joined = np.concatenate([one.past_T[-1:], one.values_H])
        axes.plot([0, *ahead], joined, color=COLOURS[1], linewidth=1.4, label="forecast")
        if one.interval is not None:
            axes.fill_between(ahead, *one.interval, color=COLOURS[1], alpha=0.22, linewidth=0, label=f"{one.share} interval")
        axes.axvline(0, color=MUTED, linewidth=0.8)
        axes.set_ylabel(drawable(one.name, 18), fontsize=8, color=INK, parse_math=False)
        axes.grid(color=GRID, linewidth=0.6)
        axes.tick_params(labelsize=7, colors=MUTED)
        axes.margins(x=0.01)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        if n == 0:
            axes.legend(fontsize=7, frameon=False, loc="upper left", ncols=3)
        if n == len(panels) - 1:
            axes.set_xlabel("times from the last value", fontsize=8, color=MUTED)
    figure.tight_layout(rect=(0, 0, 1, 1 - 0.25 / (ABOVE + TALL * len(panels))))
    file = BytesIO()
    figure.savefig(file, format="png")
    return file.getvalue()
