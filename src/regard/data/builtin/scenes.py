"""Drawn scenes whose captions can only be right or wrong: how many, of what colour and shape, and where from each other.

    two red circles above a blue square        read as text is: from above, from the left
    three green triangles                      a scene of one group

A scene is written down before it is drawn, so every right caption is known, and so is the place of everything that it names. In a
scene of two groups one is above the other or left of it, never both; "a blue square below two red circles" would be right too,
and there is no third. Which split a scene of two groups may be in is decided by a hash of what it says, so no such caption of
validation or test was ever trained on. Scenes of one group have only 45 captions; these
are in all splits, each time drawn differently.

A scene as pixels, on paper that is never quite the same: its grey, the tint of each thing and a grain are left to chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw

from regard.core.errors import UserError, nearest
from regard.core.rng import generator

COUNTS = ("a", "two", "three")
COLOURS = ("red", "green", "blue", "yellow", "purple")
SHAPES = ("circle", "square", "triangle")
OPPOSITE = {"above": "below", "left of": "right of"}
SLOTS = 4  # places of a scene in each direction; each holds one thing at most
LEAST, MOST = 0.65, 0.9  # of its place, how much a thing takes
SIZES = {"train": 12_000, "valid": 300, "test": 500}
PARTS = {"train": range(8), "valid": range(8, 9), "test": range(9, 10)}  # of ten, by the hash
ALONE = 0.15  # of all scenes have one group
SEED = 2016


class Box(NamedTuple):
    """Shares of the scene's side, from its upper left corner."""

    left: float
    top: float
    right: float
    bottom: float

    def holds(self, x: float, y: float) -> bool:
        return self.left <= x < self.right and self.top <= y < self.bottom


@dataclass(frozen=True)
class Group:
    """Things that are alike."""

    count: int
    colour: str
    shape: str

    def __str__(self) -> str:
        return f"{COUNTS[self.count - 1]} {self.colour} {self.shape}{'s' * (self.count > 1)}"


class Named(NamedTuple):
    """A word of a caption that is some things' colour or shape, and where these are; nowhere, if there are none such."""

    word: int
    boxes: tuple[Box, ...]


@dataclass(frozen=True)
class Scene:
    number: int  # what is left to chance when it is drawn derives from it
    seed: int
    groups: tuple[Group, ...]
    relation: str  # of the first group to the second; none where there is one alone
    boxes: tuple[tuple[Box, ...], ...]  # of each group's things

    @property
    def caption(self) -> str:
        return self.captions[0]

    @cached_property
    def captions(self) -> tuple[str, ...]:
        """Return all captions that describe the scene, the one that begins above or at the left first."""
        if not self.relation:
            return (str(self.groups[0]),)
        first, second = map(str, self.groups)
        return f"{first} {self.relation} {second}", f"{second} {OPPOSITE[self.relation]} {first}"

    def is_described_by(self, caption: str) -> bool:
        return caption.lower().split() in [right.split() for right in self.captions]

    def named(self, caption: str) -> list[Named]:
        """Yield every colour followed by a shape, as two words that name the same things."""
        words, found = caption.lower().split(), list[Named]()
        for n, (colour, noun) in enumerate(pairwise(words)):
            shape = noun.removesuffix("s")
            if colour in COLOURS and shape in SHAPES:
                meant = [boxes for g, boxes in zip(self.groups, self.boxes) if (g.colour, g.shape) == (colour, shape)]
                found += [Named(word, meant[0] if meant else ()) for word in (n, n + 1)]
        return found


def scenes(split: str, size: int | None = None, seed: int = SEED) -> list[Scene]:
    """Return the first `size` scenes of a split, by default all."""
    if split not in SIZES:
        raise UserError(f"builtin:scenes has no split {split!r}{nearest(split, SIZES)}")
    return [_scene(number, split, seed) for number in range(SIZES[split] if size is None else size)]


def _scene(number: int, split: str, seed: int) -> Scene:
    random = generator(seed, f"scenes/{split}", number)
    groups, relation = _content(random, split)
    places = _above(groups, random) if relation else [_chosen(groups[0].count, random, SLOTS)]
    if relation == "left of":
        places = [[(column, row) for row, column in group] for group in places]
    boxes = tuple(tuple(_box(row, column, random) for row, column in group) for group in places)
    return Scene(number, seed, groups, relation, boxes)


def _content(random: np.random.Generator, split: str) -> tuple[tuple[Group, ...], str]:
    if random.random() < ALONE:
        return (_group(random),), ""
    while True:
        first, second, relation = _group(random), _group(random), tuple(OPPOSITE)[random.integers(len(OPPOSITE))]
        differ = (first.colour, first.shape) != (second.colour, second.shape)
        if differ and part_of(f"{first} {relation} {second}") in PARTS[split]:
            return (first, second), relation


def part_of(caption: str) -> int:
    """Return the part of ten that a scene with this caption is in."""
    return blake2b(caption.encode(), digest_size=8).digest()[0] % 10


def _group(random: np.random.Generator) -> Group:
    count, colour, shape = (int(random.integers(len(choices))) for choices in (COUNTS, COLOURS, SHAPES))
    return Group(count + 1, COLOURS[colour], SHAPES[shape])


Places = list[tuple[int, int]]  # rows and columns


def _above(groups: tuple[Group, ...], random: np.random.Generator) -> list[Places]:
    """Place the first group in the upper half and the second in the lower half, not side by side."""
    while True:
        upper, lower = (_chosen(group.count, random, SLOTS // 2) for group in groups)
        columns, others = ({column for _, column in places} for places in (upper, lower))
        if max(columns) >= min(others) and max(others) >= min(columns):
            return [upper, [(row + SLOTS // 2, column) for row, column in lower]]


def _chosen(things: int, random: np.random.Generator, rows: int) -> Places:
    return [(int(n) // SLOTS, int(n) % SLOTS) for n in random.choice(rows * SLOTS, things, replace=False)]


def _box(row: int, column: int, random: np.random.Generator) -> Box:
    share, across, down = random.random(3).tolist()
    size = LEAST + share * (MOST - LEAST)
    left, top = column + across * (1 - size), row + down * (1 - size)
    return Box(left / SLOTS, top / SLOTS, (left + size) / SLOTS, (top + size) / SLOTS)


PAINT = {
    "red": (214, 40, 40),
    "green": (44, 160, 70),
    "blue": (40, 80, 210),
    "yellow": (240, 205, 40),
    "purple": (140, 60, 170),
}
TINT, GRAIN = 18.0, np.float32(4)  # how far colours and single pixels may be off
FINER = 2  # scenes are drawn this many times as large, then shrunk: edges become smooth


def draw(scene: Scene, side: int) -> np.ndarray:
    """Draw a scene as an RGB image of shape (side, side, 3)."""
    random = generator(scene.seed, "drawing", scene.number)
    paper = np.full(3, random.uniform(205, 250)) + random.uniform(-5, 5, 3)
    picture = Image.new("RGB", (FINER * side, FINER * side), _colour(paper))
    pen = ImageDraw.Draw(picture)
    for group, boxes in zip(scene.groups, scene.boxes):
        for box in boxes:
            paint = _colour(np.array(PAINT[group.colour]) + random.uniform(-TINT, TINT, 3))
            left, top, right, bottom = (FINER * side * share for share in box)
            match group.shape:
                case "circle":
                    pen.ellipse((left, top, right, bottom), fill=paint)
                case "square":
                    pen.rectangle((left, top, right, bottom), fill=paint)
                case "triangle":
                    pen.polygon([(left, bottom), (right, bottom), ((left + right) / 2, top)], fill=paint)
    grain = GRAIN * random.standard_normal((side, side, 1), np.float32)
    return (np.asarray(picture.reduce(FINER)) + grain).clip(0, 255).astype(np.uint8)


def draw_all(scenes: Sequence[Scene], side: int) -> np.ndarray:
    return np.stack([draw(scene, side) for scene in scenes])


def _colour(rgb: np.ndarray) -> tuple[int, int, int]:
    red, green, blue = (int(part) for part in rgb.clip(0, 255))
    return red, green, blue
