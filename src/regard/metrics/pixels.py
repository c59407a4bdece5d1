"""Bits per dimension, and what others need for the same images: any model must beat these.

A dimension is a level of a pixel: three a pixel of red, green and blue, one of grey, or one colour of a palette.

    even        log2 of the number of levels: nothing is known
    places      a histogram of levels for each place of an image, learned from the training images: pixels know of no other
    PNG         the bytes of the images as PNG files, headers and all: what a good lossless format makes of neighbours

Dims: N images, L levels of an image, V levels that there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from io import BytesIO
from math import log2
from typing import Any

import numpy as np
from PIL import Image

PRIOR = 1.0  # of each level at each place, before the training images are counted


@dataclass(frozen=True)
class PixelScores:
    """The likelihood of a test set."""

    bits_per_dim: float
    images: int
    dimensions: int  # of an image
    others: dict[str, float] = field(default_factory=dict)  # bits per dimension
    outputs: Sequence[str] = ()

    def lines(self) -> list[str]:
        others = [f"                {bits:.4f}  {name}" for name, bits in self.others.items()]
        nats = self.bits_per_dim * self.dimensions / log2(np.e)
        return [
            f"bits/dim        {self.bits_per_dim:.4f}  of {self.images:,} images with {self.dimensions:,} levels each",
            *others,
            f"nats an image   {nats:,.1f}",
        ]

    def as_dict(self) -> dict[str, Any]:
        return {"bits_per_dim": self.bits_per_dim, "images": self.images, "others_bits_per_dim": self.others}


def png_bits(level_NL: np.ndarray, side: int, palette_VC: np.ndarray | None = None) -> float:
    """Return the bits per dimension of images as PNG files; those of a palette of at most 256 colours have it inside."""
    channels = level_NL.shape[1] // side**2
    total = 0
    for level_L in level_NL:
        shape = (side, side, 3) if channels == 3 else (side, side)
        picture = Image.fromarray(level_L.astype(np.uint8).reshape(shape))
        if palette_VC is not None:
            picture.putpalette(palette_VC.astype(np.uint8).tobytes())
        file = BytesIO()
        picture.save(file, "PNG", optimize=True)
        total += len(file.getvalue())
    return 8 * total / level_NL.size


def place_bits(train_NL: np.ndarray, test_NL: np.ndarray, levels: int) -> float:
    """Return the bits per dimension of a histogram of levels for each place, one count of each level added."""
    places = train_NL.shape[1]
    total = 0.0
    for first in range(0, places, part := max(1, (1 << 24) // max(levels, len(train_NL)))):
        span = slice(first, min(first + part, places))
        wide = span.stop - first
        offset = levels * np.arange(wide)
        counts = np.bincount((train_NL[:, span] + offset).ravel(), minlength=wide * levels) + PRIOR
        share = counts / (len(train_NL) + PRIOR * levels)
        total -= np.log2(share[test_NL[:, span] + offset]).sum()
    return float(total / test_NL.size)
