"""Words on a map: their vectors, seen from where they differ most.

The two axes are the first two principal components of the directions of these words (Pearson 1901), found by a singular value
decomposition. A map of two axes out of a hundred leaves most out: how much, it says. The same words always give the same map,
since each axis is turned so that its longest coordinate is positive.

Dims: N words, D width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from regard.core.errors import UserError
from regard.lens.display import drawable, inches, sentence
from regard.lens.plots.alignment import draw_heading
from regard.lens.plots.charts import COLOURS, GRID
from regard.lens.plots.render import INK, MUTED, SMALL, blank, write
from regard.lens.result import NotebookView

MOST = 300  # words: with more, none can be read
WIDTH, HEIGHT, MARGIN, TOP = 8.0, 7.0, 0.6, 1.2  # inches
LETTER = 9.0  # points
LINE = 0.15  # inches between two words that stand above each other


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
        figure, axes = blank(WIDTH, HEIGHT)
        kept = f"The first two principal components of their directions; {self.kept:.0%} of the variance is left."
        draw_heading(axes, [drawable(sentence(f"{len(self.words)} words"))], [drawable(kept, 100)])
        at_N2 = _laid(self.points_N2)
        axes.plot([MARGIN, WIDTH - MARGIN], [HEIGHT - MARGIN / 2] * 2, color=GRID, linewidth=0.8)
        axes.plot(at_N2[:, 0], at_N2[:, 1], "o", color=COLOURS[0], markersize=3.5, zorder=3)
        names = [drawable(word, 24) for word in self.words]
        for name, (x, y) in zip(names, _placed(names, at_N2)):
            write(axes, x, y, name, size=LETTER, color=INK)
        write(axes, MARGIN, HEIGHT - MARGIN / 4, "Distances on the map are not all of the distances.", size=SMALL, color=MUTED)
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


def _laid(points_N2: np.ndarray) -> np.ndarray:
    """Return points in inches on the sheet, both axes to one scale."""
    middle_2, size = (points_N2.max(0) + points_N2.min(0)) / 2, np.ptp(points_N2, axis=0)
    room_2 = np.array([WIDTH - 2 * MARGIN - 1.0, HEIGHT - TOP - 2 * MARGIN])
    scale = float(np.min(room_2 / np.maximum(size, 1e-9)))
    centre_2 = np.array([(WIDTH - 1.0) / 2, TOP + room_2[1] / 2 + MARGIN / 2])
    return centre_2 + (points_N2 - middle_2) * np.array([scale, -scale])


def _placed(names: Sequence[str], at_N2: np.ndarray) -> list[tuple[float, float]]:
    """Return where each name begins: beside its point, or a line or two above or below it to avoid others."""
    taken: list[tuple[float, float, float]] = []
    for name, (x, y) in zip(names, at_N2):
        left, right = x + 0.07, x + 0.07 + inches(name, LETTER)
        rows = [y + LINE * step for step in (0, -1, 1, -2, 2)]
        free = [row for row in rows if not any(left < b and a < right and abs(row - other) < LINE * 0.9 for a, b, other in taken)]
        taken.append((left, right, (free or rows)[0]))
    return [(left, row) for left, _, row in taken]
