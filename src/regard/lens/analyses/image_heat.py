"""Attention of a caption's words to its image: a weight for every cell of a grid, as lines of text or as a picture.

The picture is the image as it is, then once for every word, bright where that word attended.

Dims: L words, Y X rows and columns, of cells or of pixels; C colours.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from regard.lens.analyses.weights import Aggregated, Label
from regard.lens.display import TOKEN_COLUMNS, bar, brief, cut, sentence, visible
from regard.lens.plots.image_maps import sheet
from regard.lens.result import NotebookView, page

FORMAT = "regard.heat.1"
TOLERANCE = 1e-3


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
