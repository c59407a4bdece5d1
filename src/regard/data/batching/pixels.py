"""Images as levels of their pixels, in batches: bytes until the device has them, so that little is copied.

Dims: N images, B batch, L levels of an image, M of its small image, Y X rows and columns, C colours.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.core.packing import to_device
from regard.core.rng import generator


@dataclass(frozen=True)
class PixelBatch:
    level_BL: Tensor
    class_B: Tensor | None
    small_BM: Tensor | None
    tokens: int  # levels, each of which is predicted

    to = to_device


@dataclass(frozen=True, eq=False)
class PixelData:
    """Images as levels, row by row, with the number of a class each and a small image each, where a model reads these."""

    level_NL: np.ndarray
    class_N: np.ndarray | None = None
    small_NM: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.level_NL)

    def digest(self) -> str:
        parts = (self.level_NL, self.class_N, self.small_NM)
        found = hashlib.sha256(repr([None if part is None else (part.shape, str(part.dtype)) for part in parts]).encode())
        for part in parts:
            if part is not None:
                found.update(np.ascontiguousarray(part).data)
        return found.hexdigest()

    def batch(self, rows: np.ndarray) -> PixelBatch:
        taken = (None if part is None else torch.from_numpy(part[rows]) for part in (self.level_NL, self.class_N, self.small_NM))
        level_BL, class_B, small_BM = taken
        assert level_BL is not None
        return PixelBatch(level_BL, class_B, small_BM, level_BL.numel())


@dataclass(frozen=True)
class PixelBatches:
    """Images as a source of batches: what the loader draws from."""

    data: PixelData
    images: int  # of a batch
    seed: int
    fixed_shapes = True

    def plan(self, epoch: int) -> list[np.ndarray]:
        rows = generator(self.seed, "shuffle", epoch).permutation(len(self.data))
        return [rows[start : start + self.images] for start in range(0, len(rows), self.images)]

    def count(self, rows: np.ndarray) -> int:
        return len(rows) * self.data.level_NL.shape[1]

    def batch(self, rows: np.ndarray, epoch: int) -> PixelBatch:
        return self.data.batch(rows)

    def in_order(self) -> Iterator[PixelBatch]:
        """Yield all images once."""
        for start in range(0, len(self.data), self.images):
            yield self.data.batch(np.arange(start, min(start + self.images, len(self.data))))


def shrunk(pixels_NYXC: np.ndarray, side: int) -> np.ndarray:
    """Return images of `side` rows and columns, of which theirs are a multiple: each pixel the mean of a square."""
    scale = pixels_NYXC.shape[1] // side
    parts = pixels_NYXC.reshape(len(pixels_NYXC), side, scale, side, scale, -1)
    return np.rint(parts.mean((2, 4), dtype=np.float32)).astype(np.uint8)
