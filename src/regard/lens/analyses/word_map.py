"""Words on a map: their vectors, seen from where they differ most.

The two axes are the first two principal components of the directions of these words (Pearson 1901), found by a singular value
decomposition. A map of two axes out of a hundred leaves most out: how much, it says. The same words always give the same map,
since each axis is turned so that its longest coordinate is positive.

One word in several senses, in several models side by side: do its vectors part where its senses do?

A static vector is the same in every sentence; a model that reads gives each use its own. Each model has a map of the uses, by the
first two principal components of their directions, coloured by sense, and a figure that no map is needed for: by how much the
mean cosine between uses of one sense exceeds that between uses of different senses.

Dims: N words, U uses, D width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard.core.errors import UserError
from regard.lens.analyses.word_senses import Senses, WordUses
from regard.lens.display import brief, drawable, inches, sentence
from regard.lens.plots.charts import COLOURS, GRID
from regard.lens.plots.render import INK, MARGIN, MUTED, SMALL, Heading, new_sheet, write
from regard.lens.plots.word_senses import line, sense_colours
from regard.lens.result import NotebookView

MOST = 300  # words: with more, none can be read
WIDTH, HEIGHT, EDGE, HEAD = 8.0, 7.0, 0.6, 1.2  # inches
NAME_POINTS = 9.0
LINE = 0.15  # inches between two words that stand above each other

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
class WordMap(NotebookView):
    words: tuple[str, ...]
    points_N2: np.ndarray
    kept: float  # of the variance

    def lines(self) -> list[str]:
        width = max(map(len, self.words))
        rows = [f"{word:<{width}}  {x:7.3f}  {y:7.3f}" for word, (x, y) in zip(self.words, self.points_N2)]
        return [f"{len(self.words)} words by their first two principal components, {self.kept:.0%} of the variance", *rows]

    def as_dict(self) -> dict[str, Any]:
        return {"words": list(self.words), "points": self.points_N2, "variance": self.kept}

    def figure(self) -> Figure:
        kept = f"The first two principal components of their directions; {self.kept:.0%} of the variance is left."
        figure, axes = new_sheet(WIDTH, HEIGHT, Heading([f"{len(self.words)} words"], [kept]))
        room_2 = np.array([WIDTH - 2 * EDGE - 1.0, HEIGHT - HEAD - 2 * EDGE])
        at_N2 = _laid(self.points_N2, np.array([(WIDTH - 1.0) / 2, HEAD + room_2[1] / 2 + EDGE / 2]), room_2)
        axes.plot([EDGE, WIDTH - EDGE], [HEIGHT - EDGE / 2] * 2, color=GRID, linewidth=0.8)
        axes.plot(at_N2[:, 0], at_N2[:, 1], "o", color=COLOURS[0], markersize=3.5, zorder=3)
        names = [drawable(word, 24) for word in self.words]
        for name, (x, y) in zip(names, _placed(names, at_N2)):
            write(axes, x, y, name, size=NAME_POINTS, color=INK)
        write(axes, EDGE, HEIGHT - EDGE / 4, "Distances on the map are not all of the distances.", size=SMALL, color=MUTED)
        return figure


def word_map(words: Sequence[str], vectors_ND: np.ndarray) -> WordMap:
    if not 3 <= len(words) <= MOST:
        raise UserError(f"a map needs from 3 to {MOST} different words, and these are {len(words)}.")
    return WordMap(tuple(words), *principal(vectors_ND))


def principal(vectors_ND: np.ndarray) -> tuple[np.ndarray, float]:
    """points_N2: the first two principal components of these directions; and the share of the variance that is left in them."""
    unit_ND = vectors_ND / np.maximum(np.linalg.norm(vectors_ND, axis=1, keepdims=True), 1e-12)
    left_NK, values_K, _ = np.linalg.svd((unit_ND - unit_ND.mean(0)).astype(np.float64), full_matrices=False)
    points_N2 = np.zeros((len(vectors_ND), 2))
    points_N2[:, : min(2, len(values_K))] = (left_NK * values_K)[:, :2]
    longest_2 = points_N2[np.abs(points_N2).argmax(0), [0, 1]]
    kept, total = float((values_K[:2] ** 2).sum()), float((values_K**2).sum())
    return points_N2 * np.where(longest_2 < 0, -1, 1), kept / total if total else 1.0


def _laid(points_N2: np.ndarray, centre_2: np.ndarray, room_2: np.ndarray) -> np.ndarray:
    """Return points in inches on the sheet, around this centre, both axes to one scale."""
    middle_2, size_2 = (points_N2.max(0) + points_N2.min(0)) / 2, np.ptp(points_N2, axis=0)
    scale = float(np.min(room_2 / np.maximum(size_2, 1e-9)))
    return centre_2 + (points_N2 - middle_2) * np.array([scale, -scale])


def _placed(names: Sequence[str], at_N2: np.ndarray) -> list[tuple[float, float]]:
    """Return where each name begins: beside its point, or a line or two above or below it to avoid others."""
    taken: list[tuple[float, float, float]] = []
    for name, (x, y) in zip(names, at_N2):
        left, right = x + 0.07, x + 0.07 + inches(name, NAME_POINTS)
        rows = [y + LINE * step for step in (0, -1, 1, -2, 2)]
        free = [row for row in rows if not any(left < b and a < right and abs(row - other) < LINE * 0.9 for a, b, other in taken)]
        taken.append((left, right, (free or rows)[0]))
    return [(left, row) for left, _, row in taken]


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
    def senses(self) -> Senses:
        assert self.uses.senses is not None
        return self.uses.senses

    @property
    def within(self) -> float:
        """The mean cosine of two uses of one sense."""
        return 1 - float(self.senses.within_L[self.layer])

    @property
    def across(self) -> float:
        """And of two uses of different senses."""
        return 1 - float(self.senses.between_L[self.layer])

    @property
    def nearer(self) -> float:
        """Return how often two uses of one sense are nearer than two of different ones; 1/2 is chance."""
        return float(self.senses.score_L[self.layer])

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
        rows = [
            f"{m.name:<{width}}  {m.where:<10}  {m.within:6.3f}  {m.across:6.3f}  {_parted(m):>9}  {m.nearer:6.0%}"
            for m in self.maps
        ]
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
        heading = Heading([drawable(sentence(self._title()), 70)], CAPTION)
        figure, axes = new_sheet(width, below + len(listed) * ROW + MARGIN, heading)
        colours = sense_colours(self.uses)
        for n, each in enumerate(self.maps):
            _draw_map(axes, each, colours, MARGIN + n * (SIDE + GAP))
        for row, n in enumerate(listed):
            use, y = self.uses.uses[n], below + (row + 0.5) * ROW
            write(axes, MARGIN + 0.25, y, str(n + 1), size=LETTER, color=MUTED, ha="right")
            write(axes, MARGIN + 0.35, y, drawable(str(line(use, 60)), 130), size=LETTER, color=colours[use.sense])
        return figure


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
    at_U2 = _laid(points_U2, np.array([left + SIDE / 2, top + SIDE / 2]), np.full(2, INSIDE * SIDE))
    for number, (use, (x, y), (label_x, label_y)) in enumerate(zip(each.uses.uses, at_U2, _beside(at_U2)), 1):
        axes.plot([x], [y], "o", color=colours[use.sense], markersize=5.0, zorder=3)
        write(axes, label_x, label_y, str(number), size=7.0, color=colours[use.sense], ha="center")


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
