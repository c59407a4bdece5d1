"""Distance by layer as curves: one for each pair of uses while they can be told apart, a band for many, and the mean on top."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes

from regard.lens.digits import brief
from regard.lens.lines import colours
from regard.lens.matrix import FRAME, Box
from regard.lens.render import INK, MUTED, SMALL, write
from regard.lens.uses import WordUses

ONE_SENSE, DIFFERENT, ALL = "#1f8a8c", "#d0693b", "#2f6f9f"
SENSES = (ACCENT := "#2f6db5", "#b8456b", "#b8912c", "#7f5bb0", "#4f9a5b")  # none of them a group's
FEW, MANY = 6, 91  # pairs: named one by one; too many for a curve each
STEPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
LABEL_STEP = 0.17


@dataclass(frozen=True)
class Group:
    """Pairs that share a colour and a mean."""

    name: str
    colour: str
    values_LP: np.ndarray

    @property
    def mean_L(self) -> np.ndarray:
        return self.values_LP.mean(1)


def groups(found: WordUses) -> list[Group]:
    values_LP = found.pairs_LP
    if found.senses is not None:
        alike = found.alike_P
        return [Group("different senses", DIFFERENT, values_LP[:, ~alike]), Group("one sense", ONE_SENSE, values_LP[:, alike])]
    if len(found.pairs) <= FEW:
        named = zip(found.pairs, colours(len(found.pairs)), values_LP.T)
        return [Group(f"{a + 1}–{b + 1}", colour, values_L[:, None]) for (a, b), colour, values_L in named]
    return [Group("mean", ALL, values_LP)]


def sense_colours(found: WordUses) -> dict[str, str]:
    """One for each sense, in the order they come in; none where none is known."""
    senses = dict.fromkeys(use.sense for use in found.uses if use.sense)
    return {sense: SENSES[n % len(SENSES)] for n, sense in enumerate(senses)}


def draw(axes: Axes, found: WordUses, box: Box, layer: int) -> None:
    """`layer` is the one the matrix shows."""
    shown, many = groups(found), len(found.pairs) > MANY
    most = max(float(np.percentile(group.values_LP, 90, axis=1).max() if many else group.values_LP.max()) for group in shown)
    ticks = _ticks(most)
    x_L = box.left + np.linspace(0, box.width, len(found.layers))
    scale = _Scale(box, max(most, ticks[-1]))
    _draw_frame(axes, found, box, x_L, scale, ticks)
    axes.plot([x_L[layer]] * 2, [box.top, box.top + box.height], color=MUTED, linewidth=0.8, linestyle=(0, (2, 2)), zorder=1)
    for group in shown:
        if many:
            low_L, high_L = np.percentile(group.values_LP, (10, 90), axis=1)
            axes.fill_between(x_L, scale(low_L), scale(high_L), color=group.colour, alpha=0.16, linewidth=0, zorder=2)
        elif group.values_LP.shape[1] > 1:
            axes.plot(x_L, scale(group.values_LP), color=group.colour, alpha=0.28, linewidth=0.7, zorder=2)
        axes.plot(x_L, scale(group.mean_L), color=group.colour, linewidth=2.2, solid_capstyle="round", zorder=3)
        axes.scatter(x_L, scale(group.mean_L), s=14, color=group.colour, linewidths=0, zorder=3)
    ends = [float(scale(group.mean_L)[-1]) for group in shown]
    for group, y in zip(shown, _spread(ends)):
        label = f"{group.name}  {brief(float(group.mean_L[-1]))}"
        write(axes, box.left + box.width + 0.1, y, label, size=9.0, color=group.colour)


class _Scale:
    """From a distance to a height on the sheet."""

    def __init__(self, box: Box, most: float) -> None:
        self.bottom, self.inch = box.top + box.height, box.height / max(most, 1e-9)

    def __call__(self, distance: np.ndarray | float) -> np.ndarray:
        return np.asarray(self.bottom - np.asarray(distance) * self.inch)


def _draw_frame(axes: Axes, found: WordUses, box: Box, x_L: np.ndarray, scale: _Scale, ticks: list[float]) -> None:
    write(axes, box.left - 0.42, box.top - 0.3, "distance between uses", size=9.0, color=INK)
    for tick in ticks:
        y = float(scale(tick))
        axes.plot([box.left, box.left + box.width], [y, y], color=FRAME, linewidth=0.6, zorder=0)
        write(axes, box.left - 0.1, y, f"{tick:g}", size=SMALL, color=MUTED, ha="right")
    under = box.top + box.height + 0.18
    for name, x in _named(found.layers, x_L):
        write(axes, x, under, name, size=SMALL, color=MUTED, ha="center")
    write(axes, box.left, under + 0.2, "static", size=SMALL, color=MUTED, ha="center")
    write(axes, box.left + box.width / 2, under + 0.2, "layer", size=SMALL, color=MUTED, ha="center")


def _named(layers: tuple[str, ...], x_L: np.ndarray) -> Iterator[tuple[str, float]]:
    """As many as have room beside each other; the static embedding and the last always."""
    every = math.ceil(0.3 / max(1e-9, float(x_L[1] - x_L[0])))
    last = len(layers) - 1
    for n, name in enumerate(layers):
        crowded = n in (1, last - 1) and every > 1
        if n in (0, last) or (not crowded and (last - n) % every == 0):
            yield name, float(x_L[n])


def _ticks(most: float) -> list[float]:
    step = next((step for step in STEPS if most / step <= 5), STEPS[-1])
    return [step * n for n in range(math.ceil(most / step - 1e-9) + 1)]


def _spread(heights: list[float]) -> list[float]:
    """The same, moved down where two labels would overlap, and the whole moved back by half of that."""
    order = np.argsort(heights, kind="stable")
    placed = np.array(heights, dtype=float)
    for above, below in pairwise(order):
        placed[below] = max(placed[below], placed[above] + LABEL_STEP)
    return list(placed - (placed - np.array(heights)).mean())
