"""A few lines on plain axes, as a picture of docs/images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from benchmarks.plot import COLOURS, GRID, INK, LETTER, MUTED, SMALL

IMAGES = Path(__file__).parents[1] / "docs" / "images"


def draw(lines: Mapping[str, tuple[Sequence[float], Sequence[float]]], title: str, x: str, y: str, path: Path) -> None:
    """Each line by its name, as places and heights."""
    figure = Figure(figsize=(7.2, 4.4), facecolor="white", layout="constrained")
    axes = figure.add_subplot()
    for n, (name, (places, heights)) in enumerate(lines.items()):
        axes.plot(places, heights, color=COLOURS[n % len(COLOURS)], marker="o", markersize=4, linewidth=1.8, label=name)
    axes.set_title(title, loc="left", size=LETTER, color=INK)
    axes.set_xlabel(x, size=SMALL, color=MUTED)
    axes.set_ylabel(y, size=SMALL, color=MUTED)
    axes.set_ylim(bottom=0)
    axes.grid(color=GRID, linewidth=0.8)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(GRID)
    axes.tick_params(colors=MUTED, labelsize=SMALL, length=0)
    axes.legend(frameon=False, fontsize=SMALL, labelcolor=INK)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=160)
