"""One sheet for print and for a README: lines between the two sentences, their matrix, and every head as a thumbnail.

The query tokens stand between the lines and the matrix and name the rows of both. Lines and matrix show the mean over
all layers and heads; the thumbnails share one scale, so that a head which spreads its attention looks pale.
"""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard.lens.alignment import Alignment
from regard.lens.display import drawable, visible
from regard.lens.plots.layout import (
    CAPTION_POINTS,
    CAPTION_STEP,
    GAP,
    LINES_WIDTH,
    MARGIN,
    SLANT,
    TITLE_POINTS,
    TITLE_STEP,
    Sheet,
    draw_lines,
    planned,
)
from regard.lens.plots.render import INK, MUTED, SMALL, Box, blank, draw_matrix, name_strongest, pooled, render_figure, write


def png(alignment: Alignment) -> bytes:
    return render_figure(lambda: drawn(alignment), "png")


def svg(alignment: Alignment) -> bytes:
    return render_figure(lambda: drawn(alignment), "svg")


def drawn(alignment: Alignment) -> Figure:
    """The figure itself, with one pair of axes that covers the sheet and measures it in inches."""
    sheet = planned(alignment)
    figure, axes = blank(sheet.width, sheet.height)
    weights = alignment.mean()
    most = float(weights.max())
    draw_heading(axes, sheet.title, sheet.caption)
    _draw_tokens(axes, sheet)
    left = sheet.keys_right + GAP
    start = np.stack([np.full(len(alignment.keys), left), sheet.rows(len(alignment.keys))], axis=1)
    end = np.stack([np.full(len(alignment.queries), left + LINES_WIDTH), sheet.rows(len(alignment.queries))], axis=1)
    draw_lines(axes, weights, start, end)
    draw_matrix(axes, weights, sheet.matrix, most)
    if sheet.names.numbered:
        name_strongest(axes, weights, sheet.matrix, most, points=26 * sheet.names.pitch)
    _draw_scale(axes, sheet.matrix, most)
    _draw_thumbs(axes, sheet, alignment)
    return figure


def draw_heading(axes: Axes, title: list[str], caption: list[str]) -> None:
    y = MARGIN + TITLE_STEP / 2
    for text in title:
        write(axes, MARGIN, y, text, size=TITLE_POINTS, color=INK)
        y += TITLE_STEP
    for text in caption:
        write(axes, MARGIN, y, text, size=CAPTION_POINTS, color=MUTED)
        y += CAPTION_STEP


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
