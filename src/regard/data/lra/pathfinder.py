"""Pathfinder: are two dots joined by a dashed path? Linsley et al. 2018; Tay et al. 2021, section 2.2.5, at 32 x 32 pixels.

A picture has two long snakes of dashes and several short ones. The long ones begin in the middle of the picture, side by side;
one dot stands where one of them begins, the other where that one ends, or where the other one does. A snake grows dash by dash,
turning a little, away from the edges and from all that is there; images in which one cannot go on are drawn again. Path-X is
the same at 128 x 128, 16,384 pixels to read.

    side   long snakes   short snakes   thick   dot   apart
    16     2 of 5        2 of 3         0.5     1.3   4       ours, for a CPU
    32     2 of 14       5 of 4         0.5     1.5   7       published as "hard", contour_length_14
    128    2 of 14       8 of 4         1.5     3     20      Path-X

How long the long ones are is how hard it is: `dashes` 6, 9 and 14 are published as easy, intermediate and hard. Below 4, how near
the dots are becomes a clue, which a model learns first.

Differs from the published generator in: the length of dashes and gaps, which are chosen to look like its pictures; one snake is
grown after the other, not both in turns.

Many pictures grow at once, each step an operation on all of them. Dims: N pictures, C ways to go on, Q points looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from regard.core.errors import UserError
from regard.data.lra.generate import SequenceArrays

SYMBOLS = tuple(map(str, range(256)))
LABELS = ("apart", "joined")
AT_A_TIME = 250
WAYS, LOOKS, TRIES = 6, 4, 10  # turns that are tried at once, so often for each dash; and snakes until one fits
TURN = 0.45  # radians, the deviation of a turn
DASH_LIGHT, DOT_LIGHT = 190.0, 255.0
FEWEST = 2  # dashes


@dataclass(frozen=True, kw_only=True)
class Pathfinder:
    side: int = 32  # pixels
    dashes: int = 0  # of the long snakes; 0: as many as are drawn at this size

    def __post_init__(self) -> None:
        if self.side not in STYLES:
            raise UserError(f"pathfinder@side={self.side} must be one of {', '.join(map(str, STYLES))}; 128 is Path-X.")
        most = STYLES[self.side].long_dashes
        if not self.dashes:
            object.__setattr__(self, "dashes", most)
        if not FEWEST <= self.dashes <= most:
            raise UserError(f"pathfinder@dashes={self.dashes} must be from {FEWEST} to {most} in pictures of side {self.side}.")


@dataclass(frozen=True)
class Style:
    side: int
    dash: float
    gap: float
    thick: float
    dot: float  # radius
    short: int  # snakes beside the two long ones
    margin: float  # at the edges
    clear: float  # between the dashes of different snakes
    apart: float  # beginnings of the long ones
    long_dashes: int = 14  # at most
    short_dashes: int = 4


STYLES = {
    16: Style(
        side=16, dash=1.7, gap=0.9, thick=0.5, dot=1.3, short=2, margin=1.0, clear=2.3, apart=4.0, long_dashes=5, short_dashes=3
    ),
    32: Style(32, dash=1.7, gap=0.9, thick=0.5, dot=1.5, short=5, margin=1.5, clear=2.3, apart=7.0),
    64: Style(64, dash=3.0, gap=1.4, thick=1.0, dot=2.2, short=6, margin=2.5, clear=3.1, apart=12.0),
    128: Style(128, dash=5.0, gap=1.8, thick=1.5, dot=3.0, short=8, margin=3.0, clear=5.2, apart=20.0),
}


def draw(settings: Pathfinder, random: np.random.Generator) -> SequenceArrays:
    pictures, labels = pictures_of(replace(STYLES[settings.side], long_dashes=settings.dashes), AT_A_TIME, random)
    lengths = np.full(len(pictures), settings.side**2)
    return SequenceArrays(pictures.reshape(-1), lengths, labels)


def pictures_of(style: Style, count: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw at most `count` images as bytes, with label 1 where the two dots are joined."""
    taken = np.zeros((count, style.side, style.side), bool)
    alive = np.ones(count, bool)
    snakes = list[np.ndarray]()
    for number in range(2 + style.short):
        dashes = style.long_dashes if number < 2 else style.short_dashes
        begin = partial(_begin, style, number, snakes[0][:, 0, 0] if snakes else None)
        snake, grown = _snake(style, dashes, begin, taken, alive, random)
        snakes.append(snake)
        alive &= grown
    snakes, taken = [snake[alive] for snake in snakes], taken[alive]
    labels = random.integers(0, 2, len(taken))
    canvas = np.zeros((len(taken), style.side, style.side), np.float32)
    for snake in snakes:
        for dash in range(snake.shape[1]):
            _stroke(canvas, snake[:, dash, 0], snake[:, dash, 1], style.thick / 2, DASH_LIGHT)
    for dot in _dots(snakes[0], snakes[1], labels, random):
        _stroke(canvas, dot, dot, style.dot, DOT_LIGHT)
    return np.rint(canvas).astype(np.uint8), labels


Begin = Callable[[np.ndarray, np.random.Generator], np.ndarray]  # of these pictures, where a snake begins


def _begin(style: Style, number: int, first_N2: np.ndarray | None, which: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Return where snake `number` begins: the second one beside the first, the others anywhere inside the picture."""
    if number == 1 and first_N2 is not None:
        way = random.uniform(0, 2 * np.pi, len(which))
        return first_N2[which] + style.apart * np.stack([np.sin(way), np.cos(way)], -1)
    margin = style.margin if number else 2 * style.apart
    return random.uniform(margin, style.side - margin, (len(which), 2))


def _snake(
    style: Style, dashes: int, begin: Begin, taken: np.ndarray, alive: np.ndarray, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Grow a snake in each active image, (count, dashes, 2 ends, y and x), mark it as taken, and return where one was found."""
    snakes, grown = np.zeros((len(taken), dashes, 2, 2)), np.zeros(len(taken), bool)
    for _ in range(TRIES):
        tried = np.flatnonzero(alive & ~grown)
        if not len(tried):
            break
        found, whole = _grow(style, dashes, begin(tried, random), taken[tried], random)
        snakes[tried[whole]], grown[tried[whole]] = found[whole], True
    done = np.flatnonzero(grown)
    for dash in range(dashes):
        _mark(style, taken, done, snakes[done, dash])
    return snakes, grown


def _grow(
    style: Style, dashes: int, end: np.ndarray, taken: np.ndarray, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Try once in each image. The dash before the last is marked as taken only now: its neighbour may be close to it."""
    count, taken = len(taken), taken.copy()
    way = random.uniform(0, 2 * np.pi, count)
    snake, lost = np.zeros((count, dashes, 2, 2)), np.zeros(count, bool)
    for dash in range(dashes):
        seeking = np.flatnonzero(~lost)
        for _ in range(LOOKS):
            if not len(seeking):
                break
            found = _next(style, end[seeking], way[seeking], dash == 0, taken, seeking, random)
            there, which = found.free, seeking[found.free]
            snake[which, dash, 0], snake[which, dash, 1], way[which] = found.start[there], found.stop[there], found.way[there]
            seeking = seeking[~there]
        lost[seeking] = True
        if dash > 1:
            going_on = np.flatnonzero(~lost)
            _mark(style, taken, going_on, snake[going_on, dash - 2])
        end = snake[:, dash, 1]
    return snake, ~lost


class Found(NamedTuple):
    """The first way on that is free, where one is."""

    free: np.ndarray
    start: np.ndarray
    stop: np.ndarray
    way: np.ndarray


def _next(
    style: Style, end: np.ndarray, way: np.ndarray, first: bool, taken: np.ndarray, which: np.ndarray, random: np.random.Generator
) -> Found:
    """Choose the next dash from these ends of snakes; the first dash may go in any direction."""
    every, size = np.arange(len(end)), (len(end), WAYS)
    turns_NC = way[:, None] + (random.uniform(-np.pi, np.pi, size) if first else random.normal(0, TURN, size))
    step_NC2 = np.stack([np.sin(turns_NC), np.cos(turns_NC)], -1)
    start_NC2 = end[:, None] + step_NC2 * (0.0 if first else style.gap)
    stop_NC2 = start_NC2 + step_NC2 * style.dash
    free_NC = _free(style, taken, which, np.stack([start_NC2, (start_NC2 + stop_NC2) / 2, stop_NC2], 2))
    chosen = free_NC.argmax(1)
    return Found(free_NC[every, chosen], start_NC2[every, chosen], stop_NC2[every, chosen], turns_NC[every, chosen])


def _free(style: Style, taken: np.ndarray, which: np.ndarray, points_NCQ2: np.ndarray) -> np.ndarray:
    """Return which directions stay inside the image and touch nothing."""
    low, high = style.margin, style.side - style.margin
    y, x = points_NCQ2[..., 0], points_NCQ2[..., 1]
    inside = (y >= low) & (y <= high) & (x >= low) & (x <= high)
    row, column = (np.clip(part.astype(np.int64), 0, style.side - 1) for part in (y, x))
    free = inside & ~taken[which[:, None, None], row, column]
    return free[..., 0] & free[..., 1] & free[..., 2]


def _mark(style: Style, taken: np.ndarray, which: np.ndarray, dashes_N22: np.ndarray) -> None:
    """Mark every pixel whose centre is nearer than `clear` to one of three points of the dash."""
    reach = int(np.ceil(style.clear))
    around = np.stack(np.meshgrid(*[np.arange(-reach, reach + 1)] * 2, indexing="ij"), -1).reshape(-1, 2)
    around = around[(around**2).sum(1) <= style.clear**2]
    points = np.stack([dashes_N22[:, 0], dashes_N22.mean(1), dashes_N22[:, 1]], 1)
    y, x = np.moveaxis(np.clip(points[:, :, None].astype(np.int64) + around, 0, style.side - 1), -1, 0)
    taken[which[:, None, None], y, x] = True


def _dots(one: np.ndarray, other: np.ndarray, labels: np.ndarray, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the two dots: at the start of a long snake, and at its end or that of the other one."""
    first = random.integers(0, 2, len(one))
    last = np.where(labels == 1, first, 1 - first)
    every, both = np.arange(len(one)), np.stack([one, other])
    return both[first, every, 0, 0], both[last, every, -1, 1]


def _stroke(canvas: np.ndarray, start_N2: np.ndarray, stop_N2: np.ndarray, radius: float, light: float) -> None:
    """Draw a line with round ends, antialiased; a dot where both ends are one point."""
    side = canvas.shape[1]
    reach = int(np.ceil(np.abs(stop_N2 - start_N2).max(initial=0) / 2 + radius + 0.5)) + 1
    offsets = np.stack(np.meshgrid(*[np.arange(-reach, reach + 1)] * 2, indexing="ij"), -1).reshape(1, -1, 2)
    pixels = ((start_N2 + stop_N2) / 2).astype(np.int64)[:, None] + offsets
    along = (stop_N2 - start_N2)[:, None]
    from_start = pixels + 0.5 - start_N2[:, None]
    share = (from_start * along).sum(-1) / np.maximum((along**2).sum(-1), 1e-9)
    distance = np.linalg.norm(from_start - np.clip(share, 0, 1)[..., None] * along, axis=-1)
    bright = light * np.clip(radius + 0.5 - distance, 0, 1)
    inside = ((pixels >= 0) & (pixels < side)).all(-1)
    which = np.broadcast_to(np.arange(len(canvas))[:, None], inside.shape)[inside]
    y, x = pixels[inside].T
    np.maximum.at(canvas, (which, y, x), bright[inside].astype(np.float32))
