"""One sheet for print and for a README: lines between the two sentences, their matrix, and every head as a thumbnail.

The query tokens stand between the lines and the matrix and name the rows of both. Lines and matrix show the mean over
all layers and heads; the thumbnails share one scale, so that a head which spreads its attention looks pale. Where things stand is
planned before anything is drawn, in inches from the top left corner.

The same as lines of text: each query with a bar for its strongest key, then its strongest keys by name.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from matplotlib.path import Path as Curve
from rich.cells import cell_len

from regard.lens.alignment import Alignment
from regard.lens.display import LEAST_WIDTH, POINTS_PER_INCH, TOKEN_COLUMNS, bar, brief, cut, drawable, inches, sentence, visible
from regard.lens.plots.render import INK, MARGIN, MUTED, SMALL, Box, Heading, colours, draw_matrix, fitted, new_sheet, write

GAP, LINES_WIDTH, LEAST_SHEET = 0.11, 2.2, 7.6
LONGEST_SIDE = 16.0  # inches, which up to sixty-six tokens fill at a size easy to read
SLANT = 60.0  # degrees by which the names above the matrix are turned
THUMB_GAP, LAYER_NAME = 0.09, 0.24
SCALE_HEIGHT = 0.5
LEAST_SHARE = 0.05  # of the greatest weight: a pair with less has no line
MOST_LINES = 800
KEYS_NAMED = 5  # in a line of text
LEAST_WEIGHT = 0.05


def drawn(alignment: Alignment) -> Figure:
    """The figure itself, with one pair of axes that covers the sheet and measures it in inches."""
    sheet = planned(alignment)
    figure, axes = new_sheet(sheet.width, sheet.height, sheet.heading)
    weights = alignment.mean()
    most = float(weights.max())
    _draw_tokens(axes, sheet)
    left = sheet.keys_right + GAP
    start = np.stack([np.full(len(alignment.keys), left), sheet.rows(len(alignment.keys))], axis=1)
    end = np.stack([np.full(len(alignment.queries), left + LINES_WIDTH), sheet.rows(len(alignment.queries))], axis=1)
    draw_lines(axes, weights, start, end)
    draw_matrix(axes, weights, sheet.matrix, most)
    if sheet.names.numbered:
        _name_strongest(axes, weights, sheet.matrix, most, points=26 * sheet.names.pitch)
    _draw_scale(axes, sheet.matrix, most)
    _draw_thumbs(axes, sheet, alignment)
    return figure


def _draw_tokens(axes: Axes, sheet: Sheet) -> None:
    names, box = sheet.names, sheet.matrix
    queries_left = sheet.keys_right + LINES_WIDTH + 2 * GAP
    for x, side, heading, ha in (
        (sheet.keys_right, names.keys, "keys", "right"),
        (queries_left, names.queries, "queries", "left"),
    ):
        rows = sheet.rows(len(side))
        write(axes, x, rows[0] - names.pitch / 2 - 0.13, heading, size=SMALL, color=MUTED, ha=ha)
        for y, name in list(zip(rows, side))[:: names.every]:
            write(axes, x, y, name, size=names.points, color=INK, ha=ha)
    for place, name in list(enumerate(names.keys))[:: names.every]:
        x = box.left + (place + 0.5) * names.pitch
        write(axes, x, box.top - 0.09, name, size=names.points, color=INK, turn=SLANT)


def _name_strongest(axes: Axes, weights: np.ndarray, box: Box, most: float, points: float) -> None:
    """Writes each row's greatest weight, in hundredths, into its cell."""
    across, down = box.width / weights.shape[1], box.height / weights.shape[0]
    for query, key in enumerate(weights.argmax(axis=1)):
        weight = weights[query, key]
        x, y = box.left + (key + 0.5) * across, box.top + (query + 0.5) * down
        hue = "white" if weight > 0.55 * most else "#12385c"
        axes.text(x, y, f"{100 * weight:.0f}", color=hue, fontsize=points, ha="center", va="center_baseline", zorder=3)


def pooled(weights: np.ndarray, side: int = 64) -> np.ndarray:
    """The matrix made small enough for a thumbnail. The greatest weight of a block stands for it: sharp lines survive."""
    for axis in (0, 1):
        size = weights.shape[axis]
        starts = np.arange(min(size, side)) * size // min(size, side)
        weights = np.maximum.reduceat(weights, starts, axis=axis)
    return weights


def _draw_scale(axes: Axes, box: Box, most: float) -> None:
    width, y = min(1.6, max(0.6, box.width)), box.top + box.height + 0.22
    draw_matrix(axes, np.linspace(0, most, 64)[None], Box(box.left, y, width, 0.09), most)
    write(axes, box.left, y + 0.22, "0", size=SMALL, color=MUTED)
    write(axes, box.left + width, y + 0.22, f"{most:.2f}", size=SMALL, color=MUTED, ha="right")


def _draw_thumbs(axes: Axes, sheet: Sheet, alignment: Alignment) -> None:
    most = float(alignment.weights.max())
    for layer, boxes in enumerate(sheet.thumbs):
        name = drawable(visible(alignment.layers[layer]))
        write(axes, boxes[0].left, boxes[0].top - 0.1, name, size=SMALL, color=MUTED)
        for head, box in enumerate(boxes):
            draw_matrix(axes, pooled(alignment.of(layer, head)), box, most)
            if layer == 0:
                centre = box.left + box.width / 2
                write(axes, centre, box.top - 0.3, f"head {head}", size=SMALL, color=MUTED, ha="center")
    if sheet.thumbs and alignment.kv_heads:
        boxes, size = sheet.thumbs[0], alignment.heads // alignment.kv_heads
        for group in range(alignment.kv_heads):
            first, last = boxes[group * size], boxes[(group + 1) * size - 1]
            left, right, y = first.left, last.left + last.width, first.top - 0.42
            axes.plot([left, right], [y, y], color=MUTED, linewidth=0.8)
            write(axes, (left + right) / 2, y - 0.12, f"keys {group}", size=SMALL, color=MUTED, ha="center")


@dataclass(frozen=True)
class Names:
    """The tokens as drawn, and the type they are set in; in a very long sentence only every n-th is named."""

    queries: list[str]
    keys: list[str]
    pitch: float
    every: int

    @property
    def points(self) -> float:
        return min(11.0, 0.62 * POINTS_PER_INCH * self.pitch * self.every)

    @property
    def numbered(self) -> bool:
        """True if a cell is large enough for a number."""
        return self.pitch >= 0.24

    @property
    def longest(self) -> int:
        return max(len(self.queries), len(self.keys))

    def width(self, names: list[str]) -> float:
        return max(0.5, *(inches(name, self.points) for name in names[:: self.every]))


@dataclass(frozen=True)
class Sheet:
    names: Names
    heading: Heading
    matrix: Box
    thumbs: list[list[Box]]  # by layer, then head; empty when there is but one head
    middle: float  # height on which both columns of tokens are centred
    keys_right: float
    width: float
    height: float

    def rows(self, count: int) -> np.ndarray:
        """The heights of a column of `count` tokens."""
        return self.middle + (np.arange(count) - (count - 1) / 2) * self.names.pitch


def planned(alignment: Alignment) -> Sheet:
    names = _names(alignment)
    key_width, tall = names.width(names.keys), names.pitch * names.longest
    lean, rise = key_width * math.cos(math.radians(SLANT)), key_width * math.sin(math.radians(SLANT))
    keys_right = MARGIN + key_width
    left = keys_right + LINES_WIDTH + names.width(names.queries) + 3 * GAP
    right = left + names.pitch * len(names.keys)
    several = alignment.weights.shape[:2] != (1, 1)
    thumb = _thumb_size(alignment, tall, right - left)
    thumbs_left = right + max(0.6, lean + 0.25)
    thumbs_right = thumbs_left + alignment.heads * (thumb[0] + THUMB_GAP) - THUMB_GAP
    width = max(LEAST_SHEET, (thumbs_right if several else right + lean) + MARGIN)
    heading = fitted(alignment.title, _caption(alignment, names), width, 1000)
    head = MARGIN + heading.height + 0.25
    top = head + rise + 0.25
    high = names.pitch * len(names.queries)
    matrix = Box(left, top + (tall - high) / 2, right - left, high)
    thumbs = _thumb_boxes(alignment, thumbs_left, head + (0.7 if alignment.kv_heads else 0.45), thumb) if several else []
    bottom = max(top + tall + SCALE_HEIGHT, *(row[0].top + row[0].height for row in thumbs), 0)
    return Sheet(names, heading, matrix, thumbs, top + tall / 2, keys_right, width, bottom + MARGIN)


def _names(alignment: Alignment) -> Names:
    queries = [drawable(visible(token)) for token in alignment.queries]
    keys = [drawable(visible(token)) for token in alignment.keys]
    pitch = min(0.32, LONGEST_SIDE / max(len(queries), len(keys), 1))
    return Names(queries, keys, pitch, every=math.ceil(0.1 / pitch))


def _thumb_size(alignment: Alignment, tall: float, wide: float) -> tuple[float, float]:
    """Return the largest thumbnails that fit beside the matrix without outgrowing it."""
    layers, heads, queries, keys = alignment.weights.shape
    shape = min(1.5, max(0.3, queries / keys))
    fits = min((tall / layers - LAYER_NAME) / shape, max(5.0, wide / 2) / heads)
    width = min(1.3, max(0.55, fits))
    return width, width * shape


def _thumb_boxes(alignment: Alignment, left: float, top: float, size: tuple[float, float]) -> list[list[Box]]:
    width, height = size
    across, down = width + THUMB_GAP, height + LAYER_NAME + THUMB_GAP
    layers, heads = alignment.weights.shape[:2]
    return [[Box(left + h * across, top + n * down, width, height) for h in range(heads)] for n in range(layers)]


def _caption(alignment: Alignment, names: Names) -> str:
    layers, heads = alignment.weights.shape[:2]
    mean = f"the mean over {_counted(layers, 'layer')} × {_counted(heads, 'head')}"
    shown = mean if layers * heads > 1 else drawable(visible(alignment.layers[0]))
    sentences = [
        f"Lines and matrix show {shown}.",
        drawable(alignment.note, 300),
        "A line takes the colour of the key that its query looks at most;",
        f"weights under {strands(alignment.mean())[0].weight:.2g} have no line.",
        "The number in a row is its greatest weight, in hundredths." if names.numbered else "",
        f"One token in {names.every} is named." if names.every > 1 else "",
        "Attention says where a model looked, not why it answered.",
    ]
    return " ".join(filter(None, sentences))


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


@dataclass(frozen=True)
class Strand:
    query: int
    key: int
    weight: float


def strands(weights: np.ndarray) -> list[Strand]:
    """The pairs to draw, weakest first so that strong lines lie on top."""
    queries, keys = np.nonzero(weights >= LEAST_SHARE * weights.max())
    found = [Strand(int(q), int(k), float(weights[q, k])) for q, k in zip(queries, keys)]
    return sorted(found, key=lambda strand: strand.weight)[-MOST_LINES:]


def draw_lines(axes: Axes, weights: np.ndarray, start: np.ndarray, end: np.ndarray) -> None:
    """Curves from key points `start` (keys, 2) to query points `end` (queries, 2), in the axes' own units."""
    shown = strands(weights)
    hues = colours(weights.shape[1])
    strongest = weights.argmax(axis=1)
    most = shown[-1].weight
    axes.add_collection(
        PathCollection(
            [_curve(start[strand.key], end[strand.query]) for strand in shown],
            facecolors="none",
            edgecolors=[_ink(hues[strongest[strand.query]], strand.weight / most) for strand in shown],
            linewidths=[0.4 + 2.4 * strand.weight / most for strand in shown],
            capstyle="butt",
        ),
        autolim=False,
    )
    axes.scatter(start[:, 0], start[:, 1], s=9, c=hues, linewidths=0, zorder=3)
    axes.scatter(end[:, 0], end[:, 1], s=9, c=[hues[key] for key in strongest], linewidths=0, zorder=3)


def _curve(start: np.ndarray, end: np.ndarray) -> Curve:
    middle = (start[0] + end[0]) / 2
    corners = [tuple(start), (middle, start[1]), (middle, end[1]), tuple(end)]
    return Curve(corners, [Curve.MOVETO, Curve.CURVE4, Curve.CURVE4, Curve.CURVE4])


def _ink(hue: str, share: float) -> str:
    opacity = 0.05 + 0.85 * share**0.85
    return f"{hue}{round(255 * opacity):02x}"


def text_lines(alignment: Alignment, width: int = 100) -> list[str]:
    """Return the mean over all layers and heads as lines for a terminal of `width` columns, of which 40 are the least."""
    width = max(width, LEAST_WIDTH)
    weights = alignment.mean()
    queries = [cut(visible(token), TOKEN_COLUMNS) for token in alignment.queries]
    keys = [cut(visible(token), TOKEN_COLUMNS) for token in alignment.keys]
    column = max(cell_len(query) for query in queries)
    most = max(1.0, float(weights.max()))  # lengths may be more than one
    layers, heads = alignment.weights.shape[:2]
    told = alignment.layers[0] if layers * heads == 1 else f"mean over {layers} × {heads} heads"
    lines = [cut(sentence(alignment.title), width), told, *([alignment.note] if alignment.note else []), ""]
    for query, row in zip(queries, weights):
        start = f"{' ' * (column - cell_len(query))}{query}  {bar(float(row.max()) / most)}  "
        lines.append((start + _named(row, keys, width - cell_len(start))).rstrip())
    return lines


def _named(row: np.ndarray, keys: list[str], room: int) -> str:
    """The strongest keys with their weights, as many as fit; the very strongest is always there."""
    order = np.argsort(-row, kind="stable")[:KEYS_NAMED]
    named = cut(f"{keys[order[0]]} {brief(row[order[0]])}", room)
    for key in order[1:]:
        longer = f"{named} · {keys[key]} {brief(row[key])}"
        if row[key] < LEAST_WEIGHT or cell_len(longer) > room:
            break
        named = longer
    return named
