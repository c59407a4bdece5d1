"""The printed sheet of attention: where things stand, in inches from the top left corner, and the lines between tokens."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.colors import LinearSegmentedColormap, to_hex
from matplotlib.path import Path as Curve

from regard.lens.alignment import Alignment
from regard.lens.display import POINTS_PER_INCH, drawable, inches, sentence, visible
from regard.lens.plots.render import Box

MARGIN, GAP, LINES_WIDTH, LEAST_WIDTH = 0.45, 0.11, 2.2, 7.6
LONGEST_SIDE = 16.0  # inches, which up to sixty-six tokens fill at a size easy to read
SLANT = 60.0  # degrees by which the names above the matrix are turned
TITLE_POINTS, TITLE_STEP = 15.0, 0.29
CAPTION_POINTS, CAPTION_STEP = 9.0, 0.18
THUMB_GAP, LAYER_NAME = 0.09, 0.24
SCALE_HEIGHT = 0.5


@dataclass(frozen=True)
class Names:
    """The tokens as drawn, and the type they are set in; in a very long sentence only every n-th is named."""

    queries: list[str]
    keys: list[str]
    pitch: float
    every: int

    @property
    def points(self) -> float:
        return min(11.0, 0.62 * POINTS_PER_INCH * self.pitch * self.every)

    @property
    def numbered(self) -> bool:
        """True if a cell is large enough for a number."""
        return self.pitch >= 0.24

    @property
    def longest(self) -> int:
        return max(len(self.queries), len(self.keys))

    def width(self, names: list[str]) -> float:
        return max(0.5, *(inches(name, self.points) for name in names[:: self.every]))


@dataclass(frozen=True)
class Sheet:
    names: Names
    title: list[str]
    caption: list[str]
    matrix: Box
    thumbs: list[list[Box]]  # by layer, then head; empty when there is but one head
    middle: float  # height on which both columns of tokens are centred
    keys_right: float
    width: float
    height: float

    def rows(self, count: int) -> np.ndarray:
        """The heights of a column of `count` tokens."""
        return self.middle + (np.arange(count) - (count - 1) / 2) * self.names.pitch


def planned(alignment: Alignment) -> Sheet:
    names = _names(alignment)
    key_width, tall = names.width(names.keys), names.pitch * names.longest
    lean, rise = key_width * math.cos(math.radians(SLANT)), key_width * math.sin(math.radians(SLANT))
    keys_right = MARGIN + key_width
    left = keys_right + LINES_WIDTH + names.width(names.queries) + 3 * GAP
    right = left + names.pitch * len(names.keys)
    several = alignment.weights.shape[:2] != (1, 1)
    thumb = _thumb_size(alignment, tall, right - left)
    thumbs_left = right + max(0.6, lean + 0.25)
    thumbs_right = thumbs_left + alignment.heads * (thumb[0] + THUMB_GAP) - THUMB_GAP
    width = max(LEAST_WIDTH, (thumbs_right if several else right + lean) + MARGIN)
    title = wrapped(drawable(sentence(alignment.title), 300), TITLE_POINTS, width - 2 * MARGIN)
    caption = wrapped(_caption(alignment, names), CAPTION_POINTS, width - 2 * MARGIN)
    head = MARGIN + TITLE_STEP * len(title) + CAPTION_STEP * len(caption) + 0.25
    top = head + rise + 0.25
    high = names.pitch * len(names.queries)
    matrix = Box(left, top + (tall - high) / 2, right - left, high)
    thumbs = _thumb_boxes(alignment, thumbs_left, head + 0.45, thumb) if several else []
    bottom = max(top + tall + SCALE_HEIGHT, *(row[0].top + row[0].height for row in thumbs), 0)
    return Sheet(names, title, caption, matrix, thumbs, top + tall / 2, keys_right, width, bottom + MARGIN)


class Heading(NamedTuple):
    """A title and a caption as lines that fit a sheet."""

    title: list[str]
    caption: list[str]

    @property
    def extra(self) -> float:
        """Inches that it is taller than one line of each."""
        return TITLE_STEP * (len(self.title) - 1) + CAPTION_STEP * (len(self.caption) - 1)


def fitted(title: str, caption: str, width: float) -> Heading:
    room = width - 2 * MARGIN
    title, caption = drawable(sentence(title), 300), drawable(sentence(caption), 300)
    return Heading(wrapped(title, TITLE_POINTS, room), wrapped(caption, CAPTION_POINTS, room))


def _names(alignment: Alignment) -> Names:
    queries = [drawable(visible(token)) for token in alignment.queries]
    keys = [drawable(visible(token)) for token in alignment.keys]
    pitch = min(0.32, LONGEST_SIDE / max(len(queries), len(keys), 1))
    return Names(queries, keys, pitch, every=math.ceil(0.1 / pitch))


def _thumb_size(alignment: Alignment, tall: float, wide: float) -> tuple[float, float]:
    """Return the largest thumbnails that fit beside the matrix without outgrowing it."""
    layers, heads, queries, keys = alignment.weights.shape
    shape = min(1.5, max(0.3, queries / keys))
    fits = min((tall / layers - LAYER_NAME) / shape, max(5.0, wide / 2) / heads)
    width = min(1.3, max(0.55, fits))
    return width, width * shape


def _thumb_boxes(alignment: Alignment, left: float, top: float, size: tuple[float, float]) -> list[list[Box]]:
    width, height = size
    across, down = width + THUMB_GAP, height + LAYER_NAME + THUMB_GAP
    layers, heads = alignment.weights.shape[:2]
    return [[Box(left + h * across, top + n * down, width, height) for h in range(heads)] for n in range(layers)]


def _caption(alignment: Alignment, names: Names) -> str:
    layers, heads = alignment.weights.shape[:2]
    mean = f"the mean over {_counted(layers, 'layer')} × {_counted(heads, 'head')}"
    shown = mean if layers * heads > 1 else drawable(visible(alignment.layers[0]))
    sentences = [
        f"Lines and matrix show {shown}.",
        drawable(alignment.note, 300),
        "A line takes the colour of the key that its query looks at most;",
        f"weights under {strands(alignment.mean())[0].weight:.2g} have no line.",
        "The number in a row is its greatest weight, in hundredths." if names.numbered else "",
        f"One token in {names.every} is named." if names.every > 1 else "",
        "Attention says where a model looked, not why it answered.",
    ]
    return " ".join(filter(None, sentences))


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


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


LEAST_SHARE = 0.05  # of the greatest weight
MOST_LINES = 800

# Mid-tones that hold on white and on black, in an order whose neighbours blend; a token's colour tells its place.
_SWEEP = ("#2f6db5", "#1f8a8c", "#4f9a5b", "#b8912c", "#d0693b", "#b8456b", "#7f5bb0")
_HUES = LinearSegmentedColormap.from_list("regard.places", _SWEEP)


def colours(count: int) -> list[str]:
    """A colour for each of `count` keys, sweeping from the first to the last."""
    return [to_hex(_HUES(place)) for place in (np.arange(count) + 0.5) / count]


@dataclass(frozen=True)
class Strand:
    query: int
    key: int
    weight: float


def strands(weights: np.ndarray) -> list[Strand]:
    """The pairs to draw, weakest first so that strong lines lie on top."""
    queries, keys = np.nonzero(weights >= LEAST_SHARE * weights.max())
    found = [Strand(int(q), int(k), float(weights[q, k])) for q, k in zip(queries, keys)]
    return sorted(found, key=lambda strand: strand.weight)[-MOST_LINES:]


def draw_lines(axes: Axes, weights: np.ndarray, start: np.ndarray, end: np.ndarray) -> None:
    """Curves from key points `start` (keys, 2) to query points `end` (queries, 2), in the axes' own units."""
    shown = strands(weights)
    hues = colours(weights.shape[1])
    strongest = weights.argmax(axis=1)
    most = shown[-1].weight
    axes.add_collection(
        PathCollection(
            [_curve(start[strand.key], end[strand.query]) for strand in shown],
            facecolors="none",
            edgecolors=[_ink(hues[strongest[strand.query]], strand.weight / most) for strand in shown],
            linewidths=[0.4 + 2.4 * strand.weight / most for strand in shown],
            capstyle="butt",
        ),
        autolim=False,
    )
    axes.scatter(start[:, 0], start[:, 1], s=9, c=hues, linewidths=0, zorder=3)
    axes.scatter(end[:, 0], end[:, 1], s=9, c=[hues[key] for key in strongest], linewidths=0, zorder=3)


def _curve(start: np.ndarray, end: np.ndarray) -> Curve:
    middle = (start[0] + end[0]) / 2
    corners = [tuple(start), (middle, start[1]), (middle, end[1]), tuple(end)]
    return Curve(corners, [Curve.MOVETO, Curve.CURVE4, Curve.CURVE4, Curve.CURVE4])


def _ink(hue: str, share: float) -> str:
    opacity = 0.05 + 0.85 * share**0.85
    return f"{hue}{round(255 * opacity):02x}"
