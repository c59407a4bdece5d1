"""One word in several senses, to several models side by side: do its vectors part where its senses do?

A static vector is the same in every sentence; a model that reads gives each use its own. Each model has a map of the uses, by the
first two principal components of their directions, coloured by sense, and a figure that no map is needed for: by how much the
mean cosine between uses of one sense exceeds that between uses of different senses.

Dims: U uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard.lens.analyses.word_map import principal
from regard.lens.analyses.word_senses import WordUses
from regard.lens.display import brief, drawable, sentence
from regard.lens.output.text import line
from regard.lens.plots.alignment import draw_heading
from regard.lens.plots.charts import GRID
from regard.lens.plots.layout import MARGIN
from regard.lens.plots.render import INK, MUTED, SMALL, blank, write
from regard.lens.plots.word_senses import sense_colours
from regard.lens.result import NotebookView

SIDE, GAP, TOP = 3.1, 0.3, 1.5  # inches of a map, between maps, above
ABOVE, ROW = 0.62, 0.19  # inches for what stands over a map, and of a sentence below all
ALIKE = 1e-9  # a distance that is none
INSIDE = 0.86  # of a map's side that its uses take up
TURNS = np.pi * np.array([-0.25, 0.25, 0.75, -0.75, 0.0, 0.5, 1.0, -0.5])  # upper right first
AROUND = 0.12 * np.stack([np.cos(TURNS), np.sin(TURNS)], 1)  # inches from a point to its number
LETTER = 8.0  # points
CAPTION = [
    "Each use of the word by the first two principal components of its direction, each map to its own scale.",
    "Parted by: mean cosine within a sense less that across senses.",
]
MOST_SENTENCES = 24


@dataclass(frozen=True, eq=False)
class SenseMap:
    """The uses as one model represents them: in one of its layers, or with one vector for all."""

    uses: WordUses
    layer: int  # a row of its vectors

    @property
    def name(self) -> str:
        return self.uses.model

    @property
    def where(self) -> str:
        return "one vector" if len(self.uses.vectors) == 1 else f"layer {self.uses.layers[self.layer]}"

    @property
    def within(self) -> float:
        """The mean cosine of two uses of one sense."""
        assert self.uses.senses is not None
        return 1 - float(self.uses.senses.within_L[self.layer])

    @property
    def across(self) -> float:
        """And of two uses of different senses."""
        assert self.uses.senses is not None
        return 1 - float(self.uses.senses.between_L[self.layer])

    @property
    def nearer(self) -> float:
        """Return how often two uses of one sense are nearer than two of different ones; 1/2 is chance."""
        assert self.uses.senses is not None
        return float(self.uses.senses.score_L[self.layer])

    @property
    def alike(self) -> bool:
        """True if all uses have one vector."""
        return bool(self.uses.pairs_LP[self.layer].max() < ALIKE)

    def points(self) -> tuple[np.ndarray, float]:
        return principal(self.uses.vectors[self.layer])


@dataclass(frozen=True, eq=False)
class SenseMaps(NotebookView):
    maps: tuple[SenseMap, ...]

    @property
    def uses(self) -> WordUses:
        return self.maps[0].uses

    def lines(self) -> list[str]:
        names = ["model", *(each.name for each in self.maps)]
        width = max(map(len, names))
        head = f"{'model':<{width}}  {'':<10}  within  across  parted by  nearer"
        rows = [f"{each.name:<{width}}  {each.where:<10}  {_figures(each)}" for each in self.maps]
        return [self._title(), head, *rows, "within, across: mean cosine of two uses of one sense, of different senses"]

    def _title(self) -> str:
        senses = dict.fromkeys(use.sense for use in self.uses.uses)
        return f"{self.uses.word} in {len(self.uses.uses)} uses of {len(senses)} senses: {', '.join(senses)}"

    def as_dict(self) -> dict[str, Any]:
        figures = ("name", "where", "within", "across", "nearer")
        return {
            "word": self.uses.word,
            "uses": [{"sentence": use.sentence, "sense": use.sense} for use in self.uses.uses],
            "models": [{name: getattr(each, name) for name in figures} | {"points": each.points()[0]} for each in self.maps],
        }

    def figure(self) -> Figure:
        listed = self.uses.order[:MOST_SENTENCES]
        width = max(2 * MARGIN + len(self.maps) * (SIDE + GAP) - GAP, 7.0)
        below = TOP + ABOVE + SIDE + 0.45
        figure, axes = blank(width, below + len(listed) * ROW + MARGIN)
        draw_heading(axes, [drawable(sentence(self._title()), 70)], CAPTION)
        colours = sense_colours(self.uses)
        for n, each in enumerate(self.maps):
            _draw_map(axes, each, colours, MARGIN + n * (SIDE + GAP))
        for row, n in enumerate(listed):
            use, y = self.uses.uses[n], below + (row + 0.5) * ROW
            write(axes, MARGIN + 0.25, y, str(n + 1), size=LETTER, color=MUTED, ha="right")
            write(axes, MARGIN + 0.35, y, drawable(str(line(use, 60)), 130), size=LETTER, color=colours[use.sense])
        return figure


def _figures(each: SenseMap) -> str:
    return f"{each.within:6.3f}  {each.across:6.3f}  {_parted(each):>9}  {each.nearer:6.0%}"


def _parted(each: SenseMap) -> str:
    return f"{each.within - each.across:+.3f}"


def _draw_map(axes: Axes, each: SenseMap, colours: dict[str, str], left: float) -> None:
    top = TOP + ABOVE
    write(axes, left, TOP + 0.12, drawable(f"{each.name}, {each.where}", 44), size=10.0, color=INK)
    told = f"within {brief(each.within)}, across {brief(each.across)}: parted by {_parted(each)}"
    write(axes, left, TOP + 0.38, told, size=SMALL, color=MUTED)
    axes.plot([left, left + SIDE, left + SIDE, left, left], [top, top, top + SIDE, top + SIDE, top], color=GRID, linewidth=0.8)
    points_U2, _ = each.points()
    if each.alike:
        axes.plot([left + SIDE / 2], [top + SIDE / 2], "o", color=MUTED, markersize=5.0)
        write(axes, left + SIDE / 2 + 0.1, top + SIDE / 2, f"all {len(points_U2)} uses", size=LETTER, color=MUTED)
        return
    at_U2 = _laid(points_U2, left, top)
    for number, (use, (x, y), (label_x, label_y)) in enumerate(zip(each.uses.uses, at_U2, _beside(at_U2)), 1):
        axes.plot([x], [y], "o", color=colours[use.sense], markersize=5.0, zorder=3)
        write(axes, label_x, label_y, str(number), size=7.0, color=colours[use.sense], ha="center")


def _laid(points_U2: np.ndarray, left: float, top: float) -> np.ndarray:
    """Return points in inches, both axes to one scale."""
    middle_2, size = (points_U2.max(0) + points_U2.min(0)) / 2, float(np.ptp(points_U2, axis=0).max())
    scale = INSIDE * SIDE / size
    return np.array([left + SIDE / 2, top + SIDE / 2]) + (points_U2 - middle_2) * np.array([scale, -scale])


def _beside(at_U2: np.ndarray) -> np.ndarray:
    """A place for each point's number: of those around it, the one farthest from all points and the numbers placed before."""
    found = np.empty((0, 2))
    for number, point_2 in enumerate(at_U2):
        taken_N2 = np.concatenate([np.delete(at_U2, number, 0), found])
        places_A2 = point_2 + AROUND
        room_A = np.linalg.norm(places_A2[:, None] - taken_N2, axis=2).min(1, initial=SIDE)
        found = np.concatenate([found, places_A2[[room_A.argmax()]]])
    return found


def sense_maps(found: Sequence[WordUses], layers: Sequence[int]) -> SenseMaps:
    """Compare the same uses in several models, each in one of its layers."""
    return SenseMaps(tuple(SenseMap(uses, layer) for uses, layer in zip(found, layers, strict=True)))
