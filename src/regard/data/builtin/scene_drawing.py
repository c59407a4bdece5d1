"""A scene as pixels, on paper that is never quite the same: its grey, the tint of each thing and a grain are left to chance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw

from regard.counted import generator
from regard.data.builtin.scenes import Box, Scene

PAINT = {
    "red": (214, 40, 40),
    "green": (44, 160, 70),
    "blue": (40, 80, 210),
    "yellow": (240, 205, 40),
    "purple": (140, 60, 170),
}
TINT, GRAIN = 18.0, np.float32(4)  # how far colours and single pixels may be off
FINER = 2  # drawn so many times as large, then shrunk: edges become smooth


def draw(scene: Scene, side: int) -> np.ndarray:
    """Red, green and blue, (side, side, 3)."""
    random = generator(scene.seed, "drawing", scene.number)
    paper = np.full(3, random.uniform(205, 250)) + random.uniform(-5, 5, 3)
    picture = Image.new("RGB", (FINER * side, FINER * side), _colour(paper))
    pen = ImageDraw.Draw(picture)
    for group, boxes in zip(scene.groups, scene.boxes):
        for box in boxes:
            paint = _colour(np.array(PAINT[group.colour]) + random.uniform(-TINT, TINT, 3))
            _draw(pen, group.shape, [FINER * side * share for share in box], paint)
    grain = GRAIN * random.standard_normal((side, side, 1), np.float32)
    return (np.asarray(picture.reduce(FINER)) + grain).clip(0, 255).astype(np.uint8)


def draw_all(scenes: Sequence[Scene], side: int) -> np.ndarray:
    return np.stack([draw(scene, side) for scene in scenes])


def _draw(pen: ImageDraw.ImageDraw, shape: str, box: list[float], paint: tuple[int, int, int]) -> None:
    left, top, right, bottom = Box(*box)
    match shape:
        case "circle":
            pen.ellipse((left, top, right, bottom), fill=paint)
        case "square":
            pen.rectangle((left, top, right, bottom), fill=paint)
        case "triangle":
            pen.polygon([(left, bottom), (right, bottom), ((left + right) / 2, top)], fill=paint)


def _colour(rgb: np.ndarray) -> tuple[int, int, int]:
    red, green, blue = (int(part) for part in rgb.clip(0, 255))
    return red, green, blue
