"""Maps over an image, drawn: the image as it is, then once for each map, bright where the map's numbers are large.

Dims: N maps, Y X rows and columns, of patches or of pixels; C colours.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from PIL import Image

from regard.lens.display import drawable, visible
from regard.lens.plots.render import INK, MARGIN, MUTED, SMALL, fitted, new_sheet, write

PICTURE, GAP, LABEL = 1.5, 0.18, 0.26  # inches
TITLE = 0.6  # of a heading that has one line of each kind
ACROSS = 6  # pictures
DARK = 0.22  # share of its light that a place without weight keeps
GLOW = np.array([255.0, 150.0, 20.0])
TINT = 0.3  # of the glow, where a map is largest
MARK = "#b8541c"
NAMED = 22  # characters of a name below a picture


def sheet(
    title: str,
    caption: str,
    image_YXC: np.ndarray,
    names: Sequence[str],
    maps_NYX: np.ndarray,
    mark: tuple[int, int] | None = None,
) -> Figure:
    """Draw the sheet; `caption` says what the light shows, and `mark` is the row and column of a patch to frame, from 0."""
    across = min(ACROSS, max(3, len(names) + 1))
    down = -(-(len(names) + 1) // across)
    height = PICTURE * image_YXC.shape[0] / image_YXC.shape[1]
    width = 2 * MARGIN + across * PICTURE + (across - 1) * GAP
    heading = fitted(title, caption, width, 500)
    first = MARGIN + TITLE + heading.extra
    figure, axes = new_sheet(width, first + MARGIN + down * (height + LABEL) + (down - 1) * GAP, heading)
    shown = [("", as_colours(image_YXC)), *((name, lit(image_YXC, map_YX)) for name, map_YX in zip(names, maps_NYX))]
    for n, (name, picture_YXC) in enumerate(shown):
        row, column = divmod(n, across)
        left, top = MARGIN + column * (PICTURE + GAP), first + row * (height + LABEL + GAP)
        extent = (left, left + PICTURE, top + LABEL + height, top + LABEL)
        axes.imshow(picture_YXC, extent=extent, interpolation="nearest", aspect="auto", zorder=2)
        text = drawable(visible_words(name), NAMED) if name else "the image"
        write(axes, left, top + LABEL / 2, text, size=SMALL + 2, color=INK if name else MUTED)
        if mark is not None:
            frame(axes, left, top + LABEL, PICTURE / maps_NYX.shape[2], height / maps_NYX.shape[1], mark)
    return figure


def visible_words(name: str) -> str:
    """A name of several words, with single spaces as they are."""
    return " ".join(visible(word) for word in name.split(" "))


def frame(axes: Axes, left: float, top: float, wide: float, high: float, mark: tuple[int, int]) -> None:
    """Frame a patch of a picture that begins at `left` and `top`; a patch is so wide and high, in inches."""
    corner = (left + mark[1] * wide, top + mark[0] * high)
    axes.add_patch(Rectangle(corner, wide, high, fill=False, edgecolor=MARK, linewidth=1.4, zorder=3))


def as_colours(image_YXC: np.ndarray) -> np.ndarray:
    """Return three colours of a grey image too."""
    return np.broadcast_to(image_YXC, (*image_YXC.shape[:2], 3))


def lit(image_YXC: np.ndarray, map_YX: np.ndarray) -> np.ndarray:
    """Return the image lit by the numbers of a map, brightest at the largest; without any above zero it is dark."""
    rows, columns = image_YXC.shape[:2]
    scaled = Image.fromarray((map_YX / max(float(map_YX.max()), 1e-30)).astype(np.float32))
    share_YX1 = np.asarray(scaled.resize((columns, rows), Image.Resampling.BICUBIC)).clip(0, 1)[..., None]
    bright_YXC = as_colours(image_YXC) * (DARK + (1 - DARK) * share_YX1)
    return (bright_YXC + TINT * share_YX1 * (GLOW - bright_YXC)).clip(0, 255).astype(np.uint8)
