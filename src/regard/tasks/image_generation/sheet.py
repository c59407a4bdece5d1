"""Images side by side in one picture, enlarged so that single pixels can be seen, with a word for each row and column.

Dims: Y X rows and columns of an image, C colours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from io import BytesIO
from math import ceil, sqrt

import numpy as np
from PIL import Image, ImageDraw, ImageFont

LEAST, GAP, MARGIN, LETTERS = 72, 6, 10, 13  # pixels: of an image's side at least, between images, around all, of letters
WIDEST = 12  # images in a row that are not told apart by what they are
LONGEST = 24  # letters of a word
PAPER, INK, EMPTY = (255, 255, 255), (60, 60, 60), (236, 236, 236)


@dataclass(frozen=True)
class Row:
    label: str
    images: Sequence[np.ndarray] = field(default_factory=tuple)  # image_YXC each, of any size


def png_of(image_YXC: np.ndarray) -> bytes:
    """Return an image as a PNG file; one colour is grey."""
    pixels = image_YXC[..., 0] if image_YXC.shape[-1] == 1 else image_YXC
    return _encoded(Image.fromarray(np.ascontiguousarray(pixels)))


def in_rows(images: Sequence[np.ndarray]) -> list[Row]:
    """Return images without names in rows, about as many rows as columns."""
    wide = min(WIDEST, ceil(sqrt(len(images))))
    return [Row("", images[start : start + wide]) for start in range(0, len(images), wide)]


def sheet(rows: Sequence[Row], headings: Sequence[str] = ()) -> bytes:
    """Return a picture of all rows as a PNG file; `headings` stand above the columns."""
    largest = max(image.shape[0] for row in rows for image in row.images)
    side, font = largest * ceil(LEAST / largest), ImageFont.load_default(LETTERS)
    left = MARGIN + max((ceil(font.getlength(_short(row.label))) + GAP for row in rows if row.label), default=0)
    top = MARGIN + (LETTERS + GAP if any(headings) else 0)
    columns = max(len(row.images) for row in rows)
    size = left + columns * (side + GAP) - GAP + MARGIN, top + len(rows) * (side + GAP) - GAP + MARGIN
    picture = Image.new("RGB", size, PAPER)
    pen = ImageDraw.Draw(picture)
    for n, heading in enumerate(headings):
        middle = left + n * (side + GAP) + side / 2
        pen.text((middle, MARGIN), _short(heading), INK, font, anchor="ma")
    for y, row in enumerate(rows):
        above = top + y * (side + GAP)
        pen.text((MARGIN, above + side / 2), _short(row.label), INK, font, anchor="lm")
        for x, image_YXC in enumerate(row.images):
            beside = left + x * (side + GAP)
            picture.paste(_enlarged(image_YXC, side), (beside, above))
            pen.rectangle((beside - 1, above - 1, beside + side, above + side), outline=EMPTY)
    return _encoded(picture)


def half_drawn(image_YXC: np.ndarray, pixels: int) -> np.ndarray:
    """Return an image of red, green and blue whose first pixels alone are there; the others are a chequered grey."""
    side = image_YXC.shape[1]
    shown = np.broadcast_to(image_YXC, (*image_YXC.shape[:2], 3)).copy()
    place = np.arange(image_YXC.shape[0] * side).reshape(-1, side)
    chequered = np.where((place // side + place % side) % 2, 225, 245).astype(np.uint8)[..., None]
    return np.where((place < pixels)[..., None], shown, chequered)


def _enlarged(image_YXC: np.ndarray, side: int) -> Image.Image:
    """Return an image enlarged by a whole number, in the middle of a square of `side` pixels."""
    scale = side // max(image_YXC.shape[:2])
    grown = np.broadcast_to(image_YXC, (*image_YXC.shape[:2], 3)).repeat(scale, 0).repeat(scale, 1)
    place = Image.new("RGB", (side, side), EMPTY)
    place.paste(Image.fromarray(grown), ((side - grown.shape[1]) // 2, (side - grown.shape[0]) // 2))
    return place


def _short(word: str) -> str:
    return word if len(word) <= LONGEST else f"{word[: LONGEST - 3]}..."


def _encoded(picture: Image.Image) -> bytes:
    file = BytesIO()
    picture.save(file, "PNG")
    return file.getvalue()
