"""Ink on paper: what every drawn sheet shares, from its type to the bytes of its file."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from threading import Lock
from typing import Literal

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard.lens.display import FONT

INK, MUTED = "#1b2430", "#66717e"
DOTS_PER_INCH = 160
SMALL = 8.0  # points

_DRAWING = Lock()  # matplotlib's settings belong to the process, so two threads must not draw at once
_METADATA: dict[str, dict[str, None]] = {"png": {"Software": None}, "svg": {"Date": None}}  # left out: the same file every time


def rendered(drawn: Callable[[], Figure], kind: Literal["png", "svg"]) -> bytes:
    file = BytesIO()
    with _DRAWING, matplotlib.rc_context():
        matplotlib.rcdefaults()  # a person's own style must not restyle the sheet; the context gives it back
        matplotlib.rcParams["svg.fonttype"] = "none"  # words stay words
        matplotlib.rcParams["svg.hashsalt"] = "regard"  # the same names inside the file every time
        matplotlib.rcParams["image.composite_image"] = False  # each image stays one
        drawn().savefig(file, format=kind, dpi=DOTS_PER_INCH, metadata=_METADATA[kind])
    return file.getvalue()


def blank(width: float, height: float) -> tuple[Figure, Axes]:
    """A new sheet, with one pair of axes that covers it and measures it in inches from its top left corner."""
    figure = Figure(figsize=(width, height), facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(height, 0), autoscale_on=False)
    axes.set_axis_off()
    return figure, axes


def write(axes: Axes, x: float, y: float, text: str, *, size: float, color: str, ha: str = "left", turn: float = 0) -> None:
    # parse_math off: a token such as "$x$" is text, not a formula
    anchor = "anchor" if turn else "default"
    axes.text(
        x, y, text, fontproperties=FONT, fontsize=size, color=color, ha=ha, va="center_baseline",
        rotation=turn, rotation_mode=anchor, parse_math=False, zorder=4,
    )  # fmt: skip
