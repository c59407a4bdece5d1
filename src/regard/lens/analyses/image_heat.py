"""Attention of a caption's words to its image: a weight for every cell of a grid, as lines of text or as a picture.

The picture is the image as it is, then once for every word, bright where that word attended.

Dims: L words, Y X rows and columns, of cells or of pixels; C colours.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from regard.lens.analyses.weights import Aggregated, Label
from regard.lens.display import TOKEN_COLUMNS, bar, brief, cut, sentence, visible
from regard.lens.plots.render import INK, MARGIN, MUTED, SMALL, fitted, new_sheet, write
from regard.lens.result import NotebookView, page

FORMAT = "regard.heat.1"
TOLERANCE = 1e-3
PICTURE, GAP, LABEL = 1.5, 0.18, 0.26  # inches
TITLE = 0.6  # of a heading that has one line of each kind
ACROSS = 6  # pictures
DARK = 0.22  # share of its light that a place without attention keeps
GLOW = np.array([255.0, 150.0, 20.0])
TINT = 0.3  # of the glow, where a word looked most


@dataclass(frozen=True, eq=False)
class Heat(NotebookView):
    title: str  # the caption
    image_YXC: np.ndarray  # bytes
    words: tuple[str, ...]
    maps_LYX: np.ndarray  # each sums to one
    layers: tuple[str, ...]  # of whose heads they are the mean

    def __post_init__(self) -> None:
        if self.maps_LYX.ndim != 3 or len(self.maps_LYX) != len(self.words) or 0 in self.maps_LYX.shape[1:]:
            raise ValueError(
                f"maps have the shape {self.maps_LYX.shape}; expected is a grid for each of {len(self.words)} words."
            )
        if not (np.abs(self.maps_LYX.sum((1, 2)) - 1) <= TOLERANCE).all() or not (self.maps_LYX >= 0).all():
            raise ValueError("every map must hold weights from zero up that sum to one.")

    @property
    def averaged(self) -> str:
        return f"mean over the heads of {', '.join(self.layers)}"

    def lines(self) -> list[str]:
        """Return a line for each word: how much its strongest cell has, and where that is."""
        words = [cut(visible(word), TOKEN_COLUMNS) for word in self.words]
        column, (_, rows, columns) = max(map(len, words), default=0), self.maps_LYX.shape
        lines = [sentence(self.title), f"{self.averaged}; {rows} × {columns} cells", ""]
        for word, map_YX in zip(words, self.maps_LYX):
            row, place = divmod(int(map_YX.argmax()), columns)
            most = f"{bar(float(map_YX.max()))}  {brief(map_YX.max())}"
            lines.append(f"{word:>{column}}  {most} at row {row + 1}, column {place + 1}")
        return lines

    def figure(self) -> Figure:
        told = f"Light: {self.averaged}, the brightest at a word's peak."
        told += " Attention says where a model looked, not why it answered."
        return sheet(self.title, told, self.image_YXC, self.words, self.maps_LYX)

    def as_dict(self) -> dict[str, Any]:
        maps = [[[float(f"{weight:.9g}") for weight in row] for row in map_YX] for map_YX in self.maps_LYX.tolist()]
        return {"format": FORMAT, "title": self.title, "layers": self.layers, "words": self.words, "maps": maps}

    def page(self) -> bytes:
        """Return studio's view of a captioned image as one file."""
        words = tuple(Label(visible(word), (n,), False) for n, word in enumerate(self.words))
        cells = tuple(Label(f"row {y + 1}, column {x + 1}", (), False) for y, x in np.ndindex(*self.maps_LYX.shape[1:]))
        maps = Aggregated(words, cells, self.maps_LYX.reshape(1, len(words), -1)).packed(scaled=True)
        pixels = base64.b64encode(np.ascontiguousarray(self.image_YXC, np.uint8).tobytes()).decode("ascii")
        image = {"shape": self.image_YXC.shape[:2], "pixels": pixels}
        title = sentence(self.title)
        return page("offline_image.js", title, {"title": title, "averaged": self.averaged, "image": image, "maps": maps})


def sheet(title: str, told: str, image_YXC: np.ndarray, words: Sequence[str], maps_LYX: np.ndarray) -> Figure:
    """Draw the sheet; `told` says what the light shows."""
    across = min(ACROSS, max(3, len(words) + 1))
    down = -(-(len(words) + 1) // across)
    height = PICTURE * image_YXC.shape[0] / image_YXC.shape[1]
    width = 2 * MARGIN + across * PICTURE + (across - 1) * GAP
    heading = fitted(title, told, width)
    first = MARGIN + TITLE + heading.extra
    figure, axes = new_sheet(width, first + MARGIN + down * (height + LABEL) + (down - 1) * GAP, heading)
    shown = [("", image_YXC), *((visible(word), lit(image_YXC, map_YX)) for word, map_YX in zip(words, maps_LYX))]
    for n, (word, picture_YXC) in enumerate(shown):
        row, column = divmod(n, across)
        left, top = MARGIN + column * (PICTURE + GAP), first + row * (height + LABEL + GAP)
        extent = (left, left + PICTURE, top + LABEL + height, top + LABEL)
        axes.imshow(picture_YXC, extent=extent, interpolation="nearest", aspect="auto", zorder=2)
        write(axes, left, top + LABEL / 2, word or "the image", size=SMALL + 2, color=INK if word else MUTED)
    return figure


def lit(image_YXC: np.ndarray, map_YX: np.ndarray) -> np.ndarray:
    """Return the image lit by a word's weights, brightest at the peak."""
    rows, columns = image_YXC.shape[:2]
    share = Image.fromarray((map_YX / map_YX.max()).astype(np.float32)).resize((columns, rows), Image.Resampling.BICUBIC)
    share_YX1 = np.asarray(share).clip(0, 1)[..., None]
    bright_YXC = image_YXC * (DARK + (1 - DARK) * share_YX1)
    return (bright_YXC + TINT * share_YX1 * (GLOW - bright_YXC)).clip(0, 255).astype(np.uint8)
