"""Parts of every drawn sheet: type, a heading that fits, matrices of shades, and the bytes of its file."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from threading import Lock
from typing import Literal, NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from regard.lens.display import FONT, drawable, inches, sentence

INK, MUTED = "#1b2430", "#66717e"
DOTS_PER_INCH = 160
SMALL = 8.0  # points
MARGIN = 0.45  # inches
TITLE_POINTS, TITLE_STEP = 15.0, 0.29
CAPTION_POINTS, CAPTION_STEP = 9.0, 0.18

_DRAWING = Lock()  # matplotlib's settings belong to the process, so two threads must not draw at once
_METADATA: dict[str, dict[str, None]] = {"png": {"Software": None}, "svg": {"Date": None}}  # left out: the same file every time


def render_figure(drawn: Callable[[], Figure], kind: Literal["png", "svg"]) -> bytes:
    file = BytesIO()
    with _DRAWING, matplotlib.rc_context():
        matplotlib.rcdefaults()  # a person's own style must not restyle the sheet; the context gives it back
        matplotlib.rcParams["svg.fonttype"] = "none"  # words stay words
        matplotlib.rcParams["svg.hashsalt"] = "regard"  # the same names inside the file every time
        matplotlib.rcParams["image.composite_image"] = False  # each image stays one
        drawn().savefig(file, format=kind, dpi=DOTS_PER_INCH, metadata=_METADATA[kind])
    return file.getvalue()


def new_sheet(width: float, height: float, heading: Heading) -> tuple[Figure, Axes]:
    """Return a sheet with this heading, and axes that cover it and measure it in inches from its top left corner."""
    figure = Figure(figsize=(width, height), facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(height, 0), autoscale_on=False)
    axes.set_axis_off()
    y = MARGIN + TITLE_STEP / 2
    for text in heading.title:
        write(axes, MARGIN, y, text, size=TITLE_POINTS, color=INK)
        y += TITLE_STEP
    for text in heading.caption:
        write(axes, MARGIN, y, text, size=CAPTION_POINTS, color=MUTED)
        y += CAPTION_STEP
    return figure, axes


def write(axes: Axes, x: float, y: float, text: str, *, size: float, color: str, ha: str = "left", turn: float = 0) -> None:
    # parse_math off: a token such as "$x$" is text, not a formula
    anchor = "anchor" if turn else "default"
    axes.text(
        x, y, text, fontproperties=FONT, fontsize=size, color=color, ha=ha, va="center_baseline",
        rotation=turn, rotation_mode=anchor, parse_math=False, zorder=4,
    )  # fmt: skip


class Heading(NamedTuple):
    """A title and a caption as lines that fit a sheet."""

    title: list[str]
    caption: list[str]

    @property
    def height(self) -> float:
        return TITLE_STEP * len(self.title) + CAPTION_STEP * len(self.caption)

    @property
    def extra(self) -> float:
        """Inches that it is taller than one line of each."""
        return self.height - TITLE_STEP - CAPTION_STEP


def fitted(title: str, caption: str, width: float, limit: int = 300) -> Heading:
    """Break both into lines that fit a sheet of this width; `limit` is the most characters of the caption."""
    room = width - 2 * MARGIN
    title, caption = drawable(sentence(title), 300), drawable(sentence(caption), limit)
    return Heading(wrapped(title, TITLE_POINTS, room), wrapped(caption, CAPTION_POINTS, room))


def wrapped(text: str, points: float, room: float) -> list[str]:
    """Lines of whole words no wider than `room`; a word wider than that is broken."""
    done: list[str] = []
    line = ""
    for word in text.split(" "):
        longer = f"{line} {word}".strip()
        if inches(longer, points) <= room:
            line = longer
            continue
        done += [line] if line else []
        line = word
        while inches(line, points) > room:
            fits = next(n for n in range(len(line) - 1, 0, -1) if inches(line[:n], points) <= room)
            done.append(line[:fits])
            line = line[fits:]
    return [*done, line]


SHADES = LinearSegmentedColormap.from_list("regard.shades", ("#f6f8fa", "#cfe0ee", "#7fb0d3", "#2f6f9f", "#12385c"))
FRAME = "#d5dae0"


class Box(NamedTuple):
    """A rectangle on the sheet, in inches from its top left corner."""

    left: float
    top: float
    width: float
    height: float


def draw_matrix(axes: Axes, weights: np.ndarray, box: Box, most: float) -> None:
    """The matrix in its box, shaded from zero to `most`."""
    left, top, width, height = box
    extent = (left, left + width, top + height, top)
    axes.imshow(weights, cmap=SHADES, vmin=0.0, vmax=most, extent=extent, aspect="auto", interpolation="none", zorder=1)
    axes.add_patch(Rectangle((left, top), width, height, fill=False, edgecolor=FRAME, linewidth=0.6, zorder=2))


# Mid-tones that hold on white and on black, in an order whose neighbours blend; a token's colour tells its place.
_SWEEP = ("#2f6db5", "#1f8a8c", "#4f9a5b", "#b8912c", "#d0693b", "#b8456b", "#7f5bb0")
_HUES = LinearSegmentedColormap.from_list("regard.places", _SWEEP)


def colours(count: int) -> list[str]:
    """A colour for each of `count` keys, sweeping from the first to the last."""
    return [to_hex(_HUES(place)) for place in (np.arange(count) + 0.5) / count]
