"""A visibility pattern as a picture: queries down, keys across, dark where a key is visible.

A text of up to `CELLS` tokens is drawn pair by pair. Of a longer one each cell stands for several pairs, and is as dark as the
share of them that is seen, by asking a few of its queries about all of its keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure

from regard.lens.plots.render import INK, MUTED, SMALL, Box, draw_matrix, fitted, new_sheet, write
from regard.model.visibility import Visibility, dense

CELLS = 128  # on a side
ASKED = 8  # queries of a cell
SIDE, LONE, GAP, MARGIN, TOP, BELOW = 2.6, 5.5, 0.45, 0.45, 1.4, 0.3  # inches; a panel alone is larger
NAME_POINTS = 10.0


class Panel(NamedTuple):
    name: str
    pattern: Visibility
    tokens: int


def shares(pattern: Visibility, tokens: int) -> np.ndarray:
    """share_CC of the pairs of each cell that are seen."""
    cells = min(tokens, CELLS)
    settled, cell_M = pattern.with_length(tokens), torch.arange(tokens) * cells // tokens
    keys_C = torch.bincount(cell_M, minlength=cells)
    found = torch.zeros(cells, cells)
    for row in range(cells):
        (queries_L,) = (cell_M == row).nonzero(as_tuple=True)
        some_R = queries_L[torch.linspace(0, len(queries_L) - 1, min(ASKED, len(queries_L))).long()]
        sees_RM = (dense(settled, some_R, tokens)[0, 0] > 0).float().expand(len(some_R), tokens)
        found[row] = torch.zeros(cells).index_add_(0, cell_M, sees_RM.mean(0)) / keys_C
    return found.numpy()


def drawn(title: str, caption: str, panels: Sequence[Panel], across: int = 4) -> Figure:
    """Side by side, and below each other where there are more than fit; under each what it sees of all pairs."""
    columns, rows = min(across, len(panels)), -(-len(panels) // across)
    side = max(SIDE, LONE / columns)
    width, step = 2 * MARGIN + columns * side + (columns - 1) * GAP, side + BELOW + GAP
    heading = fitted(title, caption, width)
    top = TOP + heading.extra
    figure, axes = new_sheet(width, top + rows * step, heading)
    for number, (name, pattern, tokens) in enumerate(panels):
        share_CC = shares(pattern, tokens)
        box = Box(MARGIN + number % columns * (side + GAP), top + number // columns * step, side, side)
        write(axes, box.left, box.top - 0.14, name, size=NAME_POINTS, color=INK)
        draw_matrix(axes, share_CC, box, 1.0)
        told = f"{tokens:,} tokens, {share_CC.mean():.0%} of pairs seen"
        write(axes, box.left, box.top + side + 0.16, told, size=SMALL, color=MUTED)
    return figure
