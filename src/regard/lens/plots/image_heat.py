"""Heat maps on one sheet: the image as it is, then once for every word, bright where that word attended.

Dims: L words, Y X rows and columns, of cells or of pixels; C colours.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from regard.lens.display import visible
from regard.lens.plots.alignment import draw_heading
from regard.lens.plots.layout import MARGIN, fitted
from regard.lens.plots.render import INK, MUTED, SMALL, blank, write

PICTURE, GAP, LABEL = 1.5, 0.18, 0.26  # inches
TITLE = 0.6  # of a heading that has one line of each kind
ACROSS = 6  # pictures
DARK = 0.22  # share of its light that a place without attention keeps
GLOW = np.array([255.0, 150.0, 20.0])
TINT = 0.3  # of the glow, where a word looked most


def sheet(title: str, told: str, image_YXC: np.ndarray, words: Sequence[str], maps_LYX: np.ndarray) -> Figure:
    """Draw the sheet; `told` says what the light shows."""
    across = min(ACROSS, max(3, len(words) + 1))
    down = -(-(len(words) + 1) // across)
    height = PICTURE * image_YXC.shape[0] / image_YXC.shape[1]
    width = 2 * MARGIN + across * PICTURE + (across - 1) * GAP
    heading = fitted(title, told, width)
    first = MARGIN + TITLE + heading.extra
    figure, axes = blank(width, first + MARGIN + down * (height + LABEL) + (down - 1) * GAP)
    draw_heading(axes, *heading)
    shown = [("", image_YXC), *((visible(word), lit(image_YXC, map_YX)) for word, map_YX in zip(words, maps_LYX))]
    for n, (word, picture_YXC) in enumerate(shown):
        row, column = divmod(n, across)
        left, top = MARGIN + column * (PICTURE + GAP), first + row * (height + LABEL + GAP)
        _place(axes, picture_YXC, left, top + LABEL, height)
        write(axes, left, top + LABEL / 2, word or "the image", size=SMALL + 2, color=INK if word else MUTED)
    return figure


def _place(axes: Axes, picture_YXC: np.ndarray, left: float, top: float, height: float) -> None:
    axes.imshow(picture_YXC, extent=(left, left + PICTURE, top + height, top), interpolation="nearest", aspect="auto", zorder=2)


def lit(image_YXC: np.ndarray, map_YX: np.ndarray) -> np.ndarray:
    """Return the image lit by a word's weights, brightest at the peak."""
    rows, columns = image_YXC.shape[:2]
    share = Image.fromarray((map_YX / map_YX.max()).astype(np.float32)).resize((columns, rows), Image.Resampling.BICUBIC)
    share_YX1 = np.asarray(share).clip(0, 1)[..., None]
    bright_YXC = image_YXC * (DARK + (1 - DARK) * share_YX1)
    return (bright_YXC + TINT * share_YX1 * (GLOW - bright_YXC)).clip(0, 255).astype(np.uint8)
