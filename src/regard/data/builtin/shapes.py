"""Drawn shapes whose class is what stands above what: ten classes that a model can only tell by where things are.

    circle over square      one thing above another: nine classes, an ordered pair of circle, square and triangle each
    side by side            two things beside each other, of any shapes

An image has two things of any colours, sizes and places, on paper that is never quite the same, as in `scenes.py`, which draws
them. Neither colour nor size says anything about the class. "Above" is decided by the rule that the centres are further apart
from top to bottom than from left to right, by MARGIN at least, so every image has one right class: the best possible score is
100%, and always saying one class scores 10%. Classes take turns: any number of images has about as many of each.
"""

from __future__ import annotations

import re

import numpy as np

from regard.core.errors import UserError, nearest
from regard.core.rng import generator
from regard.data.builtin.scenes import COLOURS, Box, Group, Scene, draw
from regard.data.builtin.scenes import SHAPES as KINDS

BESIDE = "side by side"
CLASSES = (*(f"{upper} over {lower}" for upper in KINDS for lower in KINDS), BESIDE)
SIZES = {"train": 6_000, "valid": 500, "test": 1_000}
LEAST, MOST = 0.2, 0.36  # of the side, how wide and high a thing is
MARGIN, GAP = 0.12, 0.03  # of the side: by which a direction prevails, and between two things
SEED = 2021
ENTRY = re.compile(r"builtin:shapes(@count=(?P<count>\d{1,7}))?(/(?P<split>[^/]+))?(/(?P<number>\d{1,7}))?")


def shapes_entry(entry: str) -> tuple[str, int, int | None]:
    """Return split, number of images and, where one image is named (builtin:shapes/test/7), which."""
    found = ENTRY.fullmatch(entry)
    if found is None or not entry.startswith("builtin:shapes"):
        raise UserError(f"{entry} is not known; built-in labelled images are builtin:shapes/train, /valid and /test.")
    if not found["split"]:
        raise UserError(f"{entry} lacks a split. Type builtin:shapes/train, or /valid, or /test.")
    if found["split"] not in SIZES:
        raise UserError(f"builtin:shapes has no split {found['split']!r}{nearest(found['split'], SIZES)}")
    count = SIZES[found["split"]] if found["count"] is None else int(found["count"])
    if not count:
        raise UserError(f"{entry}: @count must be at least 1.")
    number = None if found["number"] is None else int(found["number"])
    if number is not None and number >= count:
        raise UserError(f"{entry} names no image; they are numbered from builtin:shapes/{found['split']}/0 to {count - 1}.")
    return found["split"], count, number


def draw_shapes(split: str, numbers: range, side: int) -> tuple[np.ndarray, list[str]]:
    """Draw images_NYXC, and return the class of each."""
    drawn = [_scene(split, number) for number in numbers]
    return np.stack([draw(scene, side) for _, scene in drawn]), [CLASSES[label] for label, _ in drawn]


def _scene(split: str, number: int) -> tuple[int, Scene]:
    random, seed = generator(SEED, f"shapes/{split}", number), SEED + list(SIZES).index(split)  # no paper is in two splits
    label = number % len(CLASSES)
    upper, lower = divmod(label, len(KINDS)) if label < len(CLASSES) - 1 else random.integers(len(KINDS), size=2).tolist()
    boxes = _boxes(random)
    if label == len(CLASSES) - 1:
        boxes = (Box(*boxes[0][1::-1], *boxes[0][:1:-1]), Box(*boxes[1][1::-1], *boxes[1][:1:-1]))  # rows become columns
        boxes = boxes if random.random() < 0.5 else boxes[::-1]
    groups = tuple(Group(1, COLOURS[int(random.integers(len(COLOURS)))], KINDS[kind]) for kind in (upper, lower))
    return label, Scene(number, seed, groups, "above", ((boxes[0],), (boxes[1],)))


def _boxes(random: np.random.Generator) -> tuple[Box, Box]:
    """Return the places of two things that do not touch, the first above the second."""
    while True:
        size, other = (LEAST + random.random(2) * (MOST - LEAST)).tolist()
        (x, y), (z, w) = random.random(2) * (1 - size), random.random(2) * (1 - other)
        across, down = abs(x + size / 2 - z - other / 2), (w + other / 2) - (y + size / 2)
        if down >= across + MARGIN and w >= y + size + GAP:
            return Box(x, y, x + size, y + size), Box(z, w, z + other, w + other)
