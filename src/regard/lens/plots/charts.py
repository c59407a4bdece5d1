"""Charts of lens: a grid of shades with names around it, curves over a common axis, shares as bars, and all heads as an atlas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import NamedTuple, TypeVar

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from regard.lens.display import FONT, drawable, inches, sentence
from regard.lens.plots.render import FRAME, INK, MUTED, SHADES, SMALL, fitted, new_sheet, write

COLOURS = ("#0f766e", "#c2410c", "#4a55a8", "#b08900", "#8c2d6b", "#5b6b7a", "#2f8fd0", "#111827")
GRID = "#dfe3e8"
MARGIN, TOP = 0.35, 1.15
CELL, LEAST, MOST = 0.3, 0.012, 0.95  # inches of a cell: as it is drawn, the least, and the most where words are written inside
LONGEST = 9.0  # inches of a side of a grid
WIDE = 7.6  # inches of a sheet of curves
LETTER = 7.5
DOTTED = 40  # points of a curve, up to which each is marked


@dataclass(frozen=True)
class Grid:
    """Values by rows and columns, with the names of both, visible already; `inside` is written into cells."""

    values: np.ndarray
    rows: Sequence[str]
    columns: Sequence[str]
    signed: bool = False  # shaded from both sides of zero
    inside: Sequence[Sequence[str]] | None = None
    most: float | None = None  # the value that has the full shade; the greatest there is if None
    parted: Sequence[int] = ()  # columns that a line stands before


def grid(title: str, caption: str, found: Grid) -> Figure:
    """Draw a grid. Cells shrink until both sides fit a page; then only every n-th row and column is named."""
    rows, columns = ([drawable(name, 18) for name in names] if names else [""] for names in (found.rows, found.columns))
    wide = min(LONGEST / len(columns), MOST if found.inside else CELL)
    tall = min(LONGEST / len(rows), CELL)
    label, above = max(inches(name, LETTER) for name in rows) + 0.12, max(inches(name, LETTER) for name in columns) * 0.8 + 0.1
    width = max(2 * MARGIN + label + len(columns) * wide + above * 0.6, 6.4)
    heading = fitted(title, caption, width)
    left, top = MARGIN + label, TOP + heading.extra + above
    figure, axes = new_sheet(width, top + len(rows) * tall + 0.6, heading)
    most = found.most or float(np.nanmax(np.abs(found.values), initial=0.0)) or 1.0
    _cells(axes, found, most, (left, left + len(columns) * wide, top + len(rows) * tall, top))
    for column in found.parted:
        x = left + column * wide
        axes.plot([x, x], [top - 0.1, top + len(rows) * tall + 0.06], color=INK, linewidth=0.9, zorder=3)
    for n in range(0, len(rows), max(1, int(0.13 / max(tall, LEAST)))):
        write(axes, left - 0.07, top + (n + 0.5) * tall, rows[n], size=LETTER, color=INK, ha="right")
    for n in range(0, len(columns), max(1, int(0.13 / max(wide, LEAST)))):
        write(axes, left + (n + 0.5) * wide, top - 0.07, columns[n], size=LETTER, color=INK, turn=50)
    name_range(axes, left, top + len(rows) * tall + 0.2, most, found.signed)
    return figure


def shade(axes: Axes, values: np.ndarray, most: float, extent: tuple[float, float, float, float], signed: bool) -> None:
    """Draw a matrix of shades, up to `most`, on this part of the sheet: left, right, bottom, top."""
    low, shades = (-most, DIVERGING) if signed else (0.0, SHADES)
    image = np.ma.masked_invalid(values)
    axes.imshow(image, cmap=shades, vmin=low, vmax=most, extent=extent, aspect="auto", interpolation="none", zorder=1)


def name_range(axes: Axes, left: float, y: float, most: float, signed: bool) -> None:
    write(axes, left, y, f"{f'{-most:.3g}' if signed else 0} to {most:.3g}", size=SMALL, color=MUTED)


def _cells(axes: Axes, found: Grid, most: float, extent: tuple[float, float, float, float]) -> None:
    shade(axes, found.values, most, extent, found.signed)
    left, right, bottom, top = extent
    axes.plot([left, right, right, left, left], [top, top, bottom, bottom, top], color=FRAME, linewidth=0.6, zorder=2)
    if found.inside is None:
        return
    down, across = (bottom - top) / len(found.inside), (right - left) / max(1, len(found.inside[0]))
    room = max(1, int(across / 0.075))
    if down < 0.13 or room < 2:
        return  # nothing could be read
    for row, words in enumerate(found.inside):
        for column, word in enumerate(words):
            dark = abs(float(found.values[row, column])) > 0.55 * most
            x, y = left + (column + 0.5) * across, top + (row + 0.5) * down
            write(axes, x, y, drawable(word, room), size=LETTER, color="white" if dark else INK, ha="center")


@dataclass(frozen=True)
class Curve:
    x: Sequence[float]
    y: Sequence[float]
    spread: Sequence[float] | None = None  # on either side of y


def curves(title: str, caption: str, found: Mapping[str, Curve], x: str, y: str, *, logarithmic: bool = False) -> Figure:
    """All curves over one pair of axes; on a logarithmic scale what is zero or less is left out."""
    heading = fitted(title, caption, WIDE)
    high = 5.0 + heading.extra
    figure, _ = new_sheet(WIDE, high, heading)
    axes = figure.add_axes((0.11, 0.6 / high, 0.61, 3.2 / high))
    for n, (name, curve) in enumerate(found.items()):
        _curve(axes, drawable(name), curve, COLOURS[n % len(COLOURS)], "-" if n < len(COLOURS) else "--", logarithmic)
    if logarithmic:
        axes.set_yscale("log")
    else:  # small numbers share a power of ten above the axis, or they would push its name off the sheet
        axes.ticklabel_format(axis="y", scilimits=(-2, 4))
        axes.yaxis.get_offset_text().set(color=MUTED, size=8.5)
    if all(float(value).is_integer() for curve in found.values() for value in curve.x):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel(x, size=9, color=MUTED, font=FONT)
    axes.set_ylabel(y, size=9, color=MUTED, font=FONT)
    axes.legend(frameon=False, fontsize=8.5, labelcolor=INK, handlelength=1.4, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(GRID)
    axes.tick_params(colors=MUTED, labelsize=8.5, length=0, which="both")
    axes.set_axisbelow(True)
    axes.grid(color=GRID, linewidth=0.8)
    return figure


def _curve(axes: Axes, name: str, curve: Curve, colour: str, style: str, logarithmic: bool) -> None:
    xs, ys = np.asarray(curve.x, float), np.asarray(curve.y, float)
    shown = ys > 0 if logarithmic else np.isfinite(ys)
    dots = "o" if len(xs) <= DOTTED else None
    axes.plot(xs[shown], ys[shown], style, color=colour, marker=dots, markersize=3.5, linewidth=1.6, label=name)
    if curve.spread is not None:
        spread = np.asarray(curve.spread, float)
        axes.fill_between(xs[shown], (ys - spread)[shown], (ys + spread)[shown], color=colour, alpha=0.15, linewidth=0)


EDGE, ROW, LENGTH = 0.45, 0.25, 4.2  # inches; LENGTH is that of a share of one
MARKS = ("#7fb0d3", "#c2410c", "#4a55a8", "#b08900")


class Bar(NamedTuple):
    name: str
    shares: Sequence[float]  # its own, then those it is held against; NaN where there is none


def bars(title: str, caption: str, names: Sequence[str], rows: Sequence[Bar]) -> Figure:
    """`names` say what a bar and its marks are."""
    labels = [drawable(sentence(row.name), 48) for row in rows]
    left = EDGE + max(inches(label, 9.0) for label in labels) + 0.12
    width = left + LENGTH + EDGE + 0.4
    heading = fitted(title, caption, width)
    top = EDGE + heading.height + 0.56
    figure, axes = new_sheet(width, top + ROW * len(rows) + 0.55, heading)
    _legend(axes, names, left, top - 0.3)
    _scale(axes, left, top, top + ROW * len(rows))
    for n, (label, row) in enumerate(zip(labels, rows)):
        y = top + ROW * (n + 0.5)
        write(axes, left - 0.1, y, label, size=9.0, color=INK, ha="right")
        own = max(0.0, row.shares[0])
        axes.add_patch(Rectangle((left, y - 0.08), LENGTH * own, 0.16, color=MARKS[0], linewidth=0, zorder=2))
        write(axes, left + LENGTH + 0.1, y, f"{row.shares[0]:.2f}", size=SMALL, color=MUTED)
        for share, colour in zip(row.shares[1:], MARKS[1:]):
            if not isnan(share):
                x = left + LENGTH * max(0.0, share)
                axes.plot([x, x], [y - 0.1, y + 0.1], color=colour, linewidth=2, zorder=3)
    return figure


def _legend(axes: Axes, names: Sequence[str], left: float, y: float) -> None:
    for name, colour in zip(names, MARKS):
        axes.add_patch(Rectangle((left, y - 0.05), 0.12, 0.1, color=colour, linewidth=0, zorder=2))
        write(axes, left + 0.17, y, drawable(name), size=SMALL, color=MUTED)
        left += 0.35 + inches(drawable(name), SMALL)


def _scale(axes: Axes, left: float, top: float, bottom: float) -> None:
    for share in (0, 0.25, 0.5, 0.75, 1):
        x = left + LENGTH * share
        axes.plot([x, x], [top, bottom], color=GRID, linewidth=0.8, zorder=1)
        write(axes, x, bottom + 0.16, f"{share:g}", size=SMALL, color=MUTED, ha="center")


T = TypeVar("T")
GAP = 0.4
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


def by_attention(numbers: Iterable[tuple[str, T]]) -> dict[str, list[T]]:
    """Collect what belongs to the same attention, in the order it comes."""
    found: dict[str, list[T]] = {}
    for name, number in numbers:
        found.setdefault(name, []).append(number)
    return found


def atlas(title: str, caption: str, fields: Sequence[Field]) -> Figure:
    """One field a measure, three beside each other. In each, the shade's scale ends at its own greatest number, written below."""
    layers = list(dict.fromkeys(name for field in fields for name in field.values))
    heads = max((len(row) for field in fields for row in field.values.values()), default=1)
    label = max(inches(layer, SMALL) for layer in layers) + 0.1
    columns = min(ACROSS, len(fields))
    wide, tall = label + max(heads * CELL, 1.2) + GAP, len(layers) * CELL + 1.0
    width = max(2 * MARGIN + columns * wide, 6.4)
    rows = [np.asarray(field.values.get(layer, ()), float) for field in fields for layer in layers]
    blank = any(not len(row) or np.isnan(row).any() for row in rows)
    heading = fitted(title, f"{caption}; white: does not apply" if blank else caption, width)
    top = MARGIN + 0.95 + heading.extra
    figure, axes = new_sheet(width, top + tall * -(-len(fields) // columns), heading)
    for n, field in enumerate(fields):
        draw_field(axes, field, layers, MARGIN + n % columns * wide + label, top + n // columns * tall + 0.3)
    return figure


def draw_field(axes: Axes, field: Field, layers: Sequence[str], left: float, top: float) -> None:
    """Draw one measure: a row of shades for each layer, with its range below."""
    write(axes, left, top - 0.32, drawable(field.name), size=10, color=INK)
    most = field.most or 1.0
    for row, layer in enumerate(layers):
        y = top + row * CELL
        write(axes, left - 0.08, y + CELL / 2, layer, size=SMALL, color=MUTED, ha="right")
        values = np.asarray(field.values.get(layer, ()), float)
        if len(values):
            shade(axes, values[None], most, (left, left + len(values) * CELL, y + CELL, y), field.signed)
            for x in left + CELL * np.arange(len(values)):
                axes.add_patch(Rectangle((x, y), CELL, CELL, fill=False, edgecolor=FRAME, linewidth=0.5, zorder=2))
    heads = max((len(row) for row in field.values.values()), default=0)
    for head in range(0, heads, 1 + heads // 16):
        write(axes, left + (head + 0.5) * CELL, top - 0.1, str(head), size=SMALL, color=MUTED, ha="center")
    name_range(axes, left, top + len(layers) * CELL + 0.16, most, field.signed)
