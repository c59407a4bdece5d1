"""Labelled images become batches: row numbers alone, while the images themselves stay where the model computes.

Images that fit are copied to the device once, as bytes; a batch then is a few numbers, and its images are gathered by index on
the device, within the captured step. More images than that are gathered on the host, by the thread that works ahead.

With `repeats`, an image comes that often in a row of batches, augmented otherwise each time, and an epoch has as many batches as
before (repeated augmentation: Hoffer et al. 2020; Touvron et al. 2021 repeat three times).

Dims: N images, B batch, Y X rows and columns, C colours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.core.packing import to_device
from regard.core.rng import generator
from regard.data.batching.pairs import digest

SHARE = 4  # of a GPU's free memory, this part may be filled with images


class ImageStore:
    """The images of a split: on the host, and on each device that has asked for them, once."""

    def __init__(self, images_NYXC: np.ndarray) -> None:
        self.images = torch.from_numpy(np.ascontiguousarray(images_NYXC))
        self.resident = not torch.cuda.is_available() or self.images.nbytes <= torch.cuda.mem_get_info()[0] // SHARE
        self._copies: dict[torch.device, Tensor] = {}

    def on(self, device: torch.device) -> Tensor:
        """Return images_NYXC on this device."""
        if device.type == "cpu":
            return self.images
        if device not in self._copies:
            self._copies[device] = self.images.to(device)
        return self._copies[device]


@dataclass(frozen=True, eq=False)
class LabelledImages:
    store: ImageStore
    labels: np.ndarray

    @classmethod
    def of(cls, images_NYXC: np.ndarray, labels: np.ndarray) -> LabelledImages:
        return cls(ImageStore(images_NYXC), labels)

    def __len__(self) -> int:
        return len(self.labels)

    def digest(self) -> str:
        return digest(self.store.images.numpy(), self.labels)


@dataclass(frozen=True, eq=False)
class ImageBatch:
    """A batch of labelled images: the images, or their rows in a store."""

    rows: Tensor  # rows_B; or image_BYXC, where the store does not fit on the device
    labels_B: Tensor
    tokens: int  # images
    store: ImageStore

    to = to_device

    def images(self) -> Tensor:
        """Return image_BYXC, bytes, where the batch is."""
        return self.rows if self.rows.dim() > 1 else self.store.on(self.rows.device)[self.rows]


@dataclass(frozen=True)
class ImageBatches:
    """Batches of `size` images in a new order each epoch; the rest of an epoch, less than a batch, is left out of it."""

    data: LabelledImages
    size: int
    seed: int
    repeats: int = 1
    fixed_shapes = True

    def plan(self, epoch: int) -> list[np.ndarray]:
        order = generator(self.seed, "images", epoch).permutation(len(self.data))
        batches = max(1, len(order) // self.size)
        if self.repeats > 1:
            order = np.repeat(order, self.repeats)
        return [order[n * self.size : (n + 1) * self.size] for n in range(batches)]

    def count(self, rows: np.ndarray) -> int:
        return len(rows)

    def batch(self, rows: np.ndarray, epoch: int) -> ImageBatch:
        return make_batch(self.data, rows)

    def in_order(self) -> list[ImageBatch]:
        """Return every image once, for scoring."""
        return [
            make_batch(self.data, rows) for rows in np.array_split(np.arange(len(self.data)), -(-len(self.data) // self.size))
        ]


def make_batch(data: LabelledImages, rows: np.ndarray) -> ImageBatch:
    given = torch.from_numpy(rows) if data.store.resident else data.store.images[torch.from_numpy(rows)]
    return ImageBatch(given, torch.from_numpy(data.labels[rows]), len(rows), data.store)
