"""One sheet for print: how far apart the uses of a word are by layer, and in one layer how similar each is to each.

The sentences stand between the two as in a concordance, the word below itself, and name the rows of the matrix.
"""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard.lens import matrix, uses_curves
from regard.lens.figure import draw_heading
from regard.lens.glyphs import drawable, inches, sentence
from regard.lens.matrix import Box
from regard.lens.render import INK, MUTED, SMALL, blank, rendered, write
from regard.lens.uses import WordUses
from regard.lens.uses_curves import ACCENT, sense_colours
from regard.lens.uses_sheet import GAP, Sheet, planned


def png(found: WordUses, layer: int) -> bytes:
    return rendered(lambda: drawn(found, layer), "png")


def svg(found: WordUses, layer: int) -> bytes:
    return rendered(lambda: drawn(found, layer), "svg")


def drawn(found: WordUses, layer: int) -> Figure:
    sheet = planned(found, layer)
    figure, axes = blank(sheet.width, sheet.height)
    draw_heading(axes, sheet.title, sheet.caption)
    uses_curves.draw(axes, found, sheet.curves, layer)
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
    matrix.draw(axes, (similar_UU - least) / (1 - least), box, 1.0)
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
    matrix.draw(axes, np.linspace(0, 1, 64)[None], scale, 1.0)
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
