"""One sheet for print: how far apart the uses of a word are by layer, and in one layer how similar each is to each.

The sentences stand between the two as in a concordance, the word below itself, and name the rows of the matrix. A word among its
neighbours is as much of a sentence as fits on a line, cut at spaces, and the word apart from both sides.

Distance by layer as curves: one for each pair of uses while they can be told apart, a band for many, and the mean on top.

Where things stand on the sheet of a word's uses: in inches from the top left corner, planned before anything is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard.lens.display import POINTS_PER_INCH, brief, drawable, inches, sentence, visible
from regard.lens.plots.render import (
    FRAME,
    INK,
    MARGIN,
    MUTED,
    SMALL,
    Box,
    Heading,
    colours,
    draw_matrix,
    fitted,
    new_sheet,
    write,
)

if TYPE_CHECKING:
    from regard.lens.analyses.word_senses import Use, WordUses


class Line(NamedTuple):
    before: str
    word: str
    after: str

    def __str__(self) -> str:
        return f"{self.before}{self.word}{self.after}"


def line(use: Use, side: int) -> Line:
    """At most `side` characters on each side of the word, nothing in them invisible."""
    before, after = sentence(use.sentence[: use.start]), sentence(use.sentence[use.end :])
    gap_before = " " if use.sentence[: use.start][-1:].isspace() and before else ""
    gap_after = " " if use.sentence[use.end :][:1].isspace() and after else ""
    start = _cut(before[::-1], side - len(gap_before))[::-1]
    return Line(
        f"{start}{gap_before}", sentence(use.word) or visible(use.word), f"{gap_after}{_cut(after, side - len(gap_after))}"
    )


def _cut(text: str, room: int) -> str:
    """The beginning of a text, to the last whole word that fits with a mark behind it; a longer word is broken."""
    if len(text) <= room:
        return text
    whole = text[: room - 1].rpartition(" ")[0].rstrip()
    return f"{whole} …" if whole else f"{text[: room - 1]}…"


def drawn(found: WordUses, layer: int) -> Figure:
    sheet = planned(found, layer)
    figure, axes = new_sheet(sheet.width, sheet.height, sheet.heading)
    draw(axes, found, sheet.curves, layer)
    hues = sense_colours(found)
    _draw_sentences(axes, sheet, [hues.get(found.uses[n].sense, ACCENT) for n in sheet.order])
    _draw_matrix(axes, found, sheet, layer)
    if found.labelled:
        _draw_senses(axes, found, sheet, hues)
    return figure


def _draw_sentences(axes: Axes, sheet: Sheet, hues: list[str]) -> None:
    size = sheet.points
    widest = max(inches(part.before, size) for part in sheet.lines[:: sheet.every])
    for place in range(0, len(sheet.lines), sheet.every):
        part, y, x = sheet.lines[place], sheet.row(place), sheet.word_left
        number = str(sheet.order[place] + 1)
        write(axes, x - widest - GAP, y, number, size=0.85 * size, color=MUTED, ha="right")
        write(axes, x, y, part.before, size=size, color=MUTED, ha="right")
        write(axes, x, y, part.word, size=size, color=hues[place])
        write(axes, x + inches(part.word, size), y, part.after, size=size, color=MUTED)


def _draw_matrix(axes: Axes, found: WordUses, sheet: Sheet, layer: int) -> None:
    """Similarity, shaded from the least there is to 1."""
    order, box = sheet.order, sheet.matrix
    similar_UU = 1 - found.distances_LUU[layer][np.ix_(order, order)]
    least = min(float(similar_UU.min()), 1 - 1e-6)
    draw_matrix(axes, (similar_UU - least) / (1 - least), box, 1.0)
    title = f"cosine similarity, {f'layer {found.layers[layer]}' if layer else 'static embedding'}"
    write(axes, box.left, box.top - 0.3, title, size=9.0, color=INK)
    for place in range(0, len(order), sheet.every):
        x = box.left + (place + 0.5) * sheet.pitch
        write(axes, x, box.top - 0.11, str(order[place] + 1), size=0.85 * sheet.points, color=MUTED, ha="center")
    if sheet.pitch >= 0.24:
        for (row, column), similar in np.ndenumerate(similar_UU):
            x, hue = box.left + (column + 0.5) * sheet.pitch, "white" if similar - least > 0.55 * (1 - least) else "#12385c"
            if row != column:
                write(axes, x, sheet.row(row), f"{100 * similar:.0f}", size=7.0, color=hue, ha="center")
    scale = Box(box.left, box.top + box.height + 0.16, min(1.6, max(0.9, box.width)), 0.08)
    draw_matrix(axes, np.linspace(0, 1, 64)[None], scale, 1.0)
    write(axes, scale.left, scale.top + 0.2, f"{least:.3g}", size=SMALL, color=MUTED)
    write(axes, scale.left + scale.width, scale.top + 0.2, "1", size=SMALL, color=MUTED, ha="right")


def _draw_senses(axes: Axes, found: WordUses, sheet: Sheet, hues: dict[str, str]) -> None:
    """A bracket beside the rows of each sense."""
    senses, x = [found.uses[n].sense for n in sheet.order], sheet.matrix.left + sheet.matrix.width + GAP
    for sense, hue in hues.items():
        first, count = senses.index(sense), senses.count(sense)
        top, bottom = sheet.row(first) - 0.42 * sheet.pitch, sheet.row(first + count - 1) + 0.42 * sheet.pitch
        axes.plot([x, x], [top, bottom], color=hue, linewidth=2.0, solid_capstyle="butt")
        write(axes, x + 0.08, (top + bottom) / 2, drawable(sentence(sense), 20), size=9.0, color=hue)


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
    bottom, inch = box.top + box.height, box.height / max(most, ticks[-1], 1e-9)

    def scale(distance: np.ndarray | float) -> np.ndarray:
        return np.asarray(bottom - np.asarray(distance) * inch)

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


def _draw_frame(
    axes: Axes, found: WordUses, box: Box, x_L: np.ndarray, scale: Callable[[float], np.ndarray], ticks: list[float]
) -> None:
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
    """Return the layers to name: as many as have room, the static embedding and the last always."""
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


CURVES_WIDTH, LEAST_HEIGHT = 4.3, 2.5
AXIS_WIDTH, END_NAMES, UNDER = 0.42, 1.75, 0.75
SIDE = 30  # characters of a sentence on each side of the word
TALLEST = 14.0
GAP = 0.12


@dataclass(frozen=True)
class Sheet:
    heading: Heading
    order: list[int]  # of the uses: those of one sense together
    lines: list[Line]  # in that order
    pitch: float
    every: int  # one line in this many is written
    curves: Box
    word_left: float  # where the word begins in every line
    matrix: Box
    width: float
    height: float

    @property
    def points(self) -> float:
        return _points(self.pitch, self.every)

    def row(self, place: int) -> float:
        return self.matrix.top + (place + 0.5) * self.pitch


def planned(found: WordUses, layer: int) -> Sheet:
    order = found.order
    lines = [Line(*(drawable(part, 80) for part in line(found.uses[n], SIDE))) for n in order]
    pitch = min(0.3, TALLEST / len(lines))
    every = math.ceil(0.1 / pitch)
    points, named = _points(pitch, every), lines[::every]
    numbers = inches(f"{len(lines)}  ", points)
    before = max(inches(part.before, points) for part in named)
    after = max(inches(f"{part.word}{part.after}", points) for part in named)
    word_left = MARGIN + AXIS_WIDTH + CURVES_WIDTH + END_NAMES + numbers + before
    matrix_left, side = word_left + after + 2 * GAP, pitch * len(lines)
    senses = max((inches(drawable(sentence(use.sense), 20), 9.0) + 2 * GAP for use in found.uses if use.sense), default=0.0)
    width = matrix_left + max(side + senses, 1.8) + MARGIN
    heading = fitted(title(found), _caption(found, layer), width, 600)
    top = MARGIN + heading.height + 0.62
    tall = max(LEAST_HEIGHT, side)
    curves = Box(MARGIN + AXIS_WIDTH, top, CURVES_WIDTH, min(tall, 5.0))
    box = Box(matrix_left, top, side, side)
    return Sheet(heading, order, lines, pitch, every, curves, word_left, box, width, top + tall + UNDER)


def _points(pitch: float, every: int) -> float:
    return min(10.0, 0.6 * POINTS_PER_INCH * pitch * every)


def title(found: WordUses) -> str:
    return f"{sentence(found.word)}: one word, {len(found.uses):,} uses"


def _caption(found: WordUses, layer: int) -> str:
    where = f"In layer {found.layers[layer]}" if layer else "In the static embedding"
    others, senses = found.others_L[layer], found.senses
    sentences = [
        f"Read by {sentence(found.model)}.",
        "The static embedding (words) has one vector for a word; a layer gives each use its own, by what stands around it.",
        "" if found.one_spelling else "It is spelled in several ways here, so that even static vectors differ.",
        f"{where} two uses are {brief(float(found.mean_L[layer]))} apart on average (1 − cosine).",
        "" if np.isnan(others) else f"Different words of these sentences are {brief(float(others))} apart.",
        "" if senses is None else "Two uses of one sense are nearer than two of different senses in",
        "" if senses is None else f"{100 * senses.score_L[layer]:.0f}% of comparisons.",
    ]
    return " ".join(filter(None, sentences))
