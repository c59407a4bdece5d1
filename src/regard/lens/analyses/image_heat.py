"""Attention of a caption's words to its image: a weight for every cell of a grid, as lines of text or as a picture.

Dims: L words, Y X rows and columns, of cells or of pixels; C colours.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from regard.core.errors import UserError
from regard.lens.analyses.weights import Aggregated, Label
from regard.lens.display import brief, sentence, visible
from regard.lens.output.page import page
from regard.lens.output.save import store
from regard.lens.output.text import TOKEN_COLUMNS, bar, cut
from regard.lens.plots import image_heat
from regard.lens.plots.render import render_figure

FORMAT = "regard.heat.1"
TOLERANCE = 1e-3


@dataclass(frozen=True, eq=False)
class Heat:
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


def averaged(heat: Heat) -> str:
    return f"mean over the heads of {', '.join(heat.layers)}"


def text(heat: Heat) -> str:
    """A line for each word: how much its strongest cell has, and where that is."""
    words = [cut(visible(word), TOKEN_COLUMNS) for word in heat.words]
    column, (_, rows, columns) = max(map(len, words), default=0), heat.maps_LYX.shape
    lines = [sentence(heat.title), f"{averaged(heat)}; {rows} × {columns} cells", ""]
    for word, map_YX in zip(words, heat.maps_LYX):
        row, place = divmod(int(map_YX.argmax()), columns)
        lines.append(f"{word:>{column}}  {bar(float(map_YX.max()))}  {brief(map_YX.max())} at row {row + 1}, column {place + 1}")
    return "\n".join(lines)


def check_suffix(path: Path) -> None:
    if path.suffix.lower() not in RENDERERS:
        raise UserError(f"{path} must end in one of {', '.join(RENDERERS)}, which say what kind of picture to draw.")


def save(heat: Heat, path: Path) -> None:
    """Writes the picture that the ending of `path` asks for: .png, .svg, .html or .json."""
    check_suffix(path)
    store(RENDERERS[path.suffix.lower()](heat), path)


def as_json(heat: Heat) -> bytes:
    """The numbers, for another program."""
    maps = [[[float(f"{weight:.9g}") for weight in row] for row in map_YX] for map_YX in heat.maps_LYX.tolist()]
    found = {"format": FORMAT, "title": heat.title, "layers": heat.layers, "words": heat.words, "maps": maps}
    return (json.dumps(found, allow_nan=False) + "\n").encode("ascii")


def _sheet(heat: Heat) -> Figure:
    told = f"Light: {averaged(heat)}, the brightest at a word's peak. Attention says where a model looked, not why it answered."
    return image_heat.sheet(heat.title, told, heat.image_YXC, heat.words, heat.maps_LYX)


def _page(heat: Heat) -> bytes:
    """Return studio's view of a captioned image as one file."""
    words = tuple(Label(visible(word), (n,), False) for n, word in enumerate(heat.words))
    cells = tuple(Label(f"row {y + 1}, column {x + 1}", (), False) for y, x in np.ndindex(*heat.maps_LYX.shape[1:]))
    maps = Aggregated(words, cells, heat.maps_LYX.reshape(1, len(words), -1)).packed(scaled=True)
    pixels = base64.b64encode(np.ascontiguousarray(heat.image_YXC, np.uint8).tobytes()).decode("ascii")
    image = {"shape": heat.image_YXC.shape[:2], "pixels": pixels}
    title = sentence(heat.title)
    return page("offline_image.js", title, {"title": title, "averaged": averaged(heat), "image": image, "maps": maps})


RENDERERS: dict[str, Callable[[Heat], bytes]] = {
    ".png": lambda heat: render_figure(lambda: _sheet(heat), "png"),
    ".svg": lambda heat: render_figure(lambda: _sheet(heat), "svg"),
    ".html": _page,
    ".json": as_json,
}
