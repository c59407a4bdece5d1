"""The shapes of sequence problems: `python docs/images/sequence_problems.py` draws sequence-problems.png beside itself."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

INK, MUTED = "#1b2430", "#66717e"
GIVEN, CARRIED, ASKED = "#f3c9b8", "#d7e0ea", "#bfe0d2"
BOX, STEP, LEVELS = 0.62, 0.92, (0.0, 1.3, 2.6)  # of a box, from box to box, of what is given, read and asked


class Shape(NamedTuple):
    name: str
    recipe: str
    given: tuple[str, ...]  # "" where nothing is
    asked: tuple[str, ...]


SHAPES = (
    Shape("one to one", "skipgram", ("king",), ("queen",)),
    Shape("one to many", "caption-scenes", ("image", "", ""), ("a", "red", "circle")),
    Shape("many to one", "bert-classify", ("not", "bad", "at all"), ("", "", "positive")),
    Shape("many to many, aligned", "bert-tag", ("Ann", "left", "Rome"), ("person", "-", "place")),
    Shape("many to many, unaligned", "dates", ("27.", "9.", "94", "", "", ""), ("", "", "", "1994", "-09", "-27")),
)


def box(axes: Axes, x: float, level: int, text: str, colour: str) -> None:
    y = LEVELS[level]
    patch = FancyBboxPatch(
        (x - BOX / 2, y), BOX, BOX, boxstyle="round,pad=0.04", facecolor=colour, edgecolor=MUTED, linewidth=0.7
    )
    axes.add_patch(patch)
    axes.text(x, y + BOX / 2, text, ha="center", va="center", fontsize=7.5 if len(text) < 7 else 6.2, color=INK)


def arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    axes.add_patch(FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=8, color=MUTED, linewidth=0.9))


def draw(axes: Axes, shape: Shape, left: float) -> float:
    """One shape from `left` on; where the next one may begin."""
    for n, (given, asked) in enumerate(zip(shape.given, shape.asked)):
        x = left + n * STEP
        box(axes, x, 1, "", CARRIED)
        if n:
            middle = LEVELS[1] + BOX / 2
            arrow(axes, (x - STEP + BOX / 2 + 0.04, middle), (x - BOX / 2 - 0.04, middle))
        if given:
            box(axes, x, 0, given, GIVEN)
            arrow(axes, (x, LEVELS[0] + BOX + 0.05), (x, LEVELS[1] - 0.05))
        if asked:
            box(axes, x, 2, asked, ASKED)
            arrow(axes, (x, LEVELS[1] + BOX + 0.05), (x, LEVELS[2] - 0.05))
    axes.text(left - BOX / 2, 4.0, shape.name, fontsize=9.5, color=INK)
    axes.text(left - BOX / 2, 3.65, f"regard train {shape.recipe}", fontsize=7.5, color=MUTED, family="monospace")
    return left + max(len(shape.given) * STEP, 2.5) + 0.75


def drawn() -> Figure:
    figure = Figure(figsize=(14.0, 3.4), dpi=140)
    axes = figure.add_axes((0, 0, 1, 1))
    left = 0.0
    for shape in SHAPES:
        left = draw(axes, shape, left)
    for level, name in enumerate(("given", "read", "asked")):
        axes.text(-0.5, LEVELS[level] + BOX / 2, name, ha="right", va="center", fontsize=8, color=MUTED)
    axes.set(xlim=(-1.4, left - 0.2), ylim=(-0.35, 4.5), aspect="equal")
    axes.axis("off")
    return figure


if __name__ == "__main__":
    drawn().savefig(Path(__file__).with_name("sequence-problems.png"), metadata={"Software": ""})
