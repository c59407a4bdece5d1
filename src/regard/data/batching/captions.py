"""Images and captions become batches: every caption with its image, those of like length together.

An image stays bytes until the model reads it, and is kept once however many captions it has.

Dims: N images, B batch, L caption length, Y X rows and columns, C colours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.core.packing import to_device
from regard.data.batching.pairs import Encode, Ragged, digest, frame, pad_rows, plan_by_length, rows_by_length
from regard.data.sources.captions import CaptionedImages
from regard.text.specials import EOS, PAD, SOS


@dataclass(frozen=True)
class ImageBatch:
    """A batch of images and their captions."""

    image_BYXC: Tensor  # bytes
    target_in_BL: Tensor
    target_out_BL: Tensor
    tokens: int  # words to predict, <eos> included; known to the host
    pad: int = PAD

    to = to_device

    @property
    def inputs(self) -> tuple[Tensor, Tensor]:
        return self.image_BYXC, self.target_in_BL

    def twice(self) -> ImageBatch:
        image, target_in, target_out = (torch.cat([p, p]) for p in (self.image_BYXC, self.target_in_BL, self.target_out_BL))
        return ImageBatch(image, target_in, target_out, 2 * self.tokens)


@dataclass(frozen=True)
class EncodedCaptions:
    images_NYXC: np.ndarray
    owner: np.ndarray  # of each caption, the number of its image
    words: Ragged
    dropped: int = 0  # captions left out because they were too long

    def __len__(self) -> int:
        return len(self.words)

    @property
    def digest(self) -> str:
        return digest(self.images_NYXC, self.owner, self.words)


@dataclass(frozen=True)
class CaptionBatches:
    """Captions as a source of batches: what the loader draws from."""

    data: EncodedCaptions
    tokens: int  # of a batch, padding counted
    seed: int
    fixed_shapes = False

    def plan(self, epoch: int) -> list[np.ndarray]:
        return plan_by_length(self.data.words.lengths + 1, self.tokens, self.seed, epoch)

    def count(self, rows: np.ndarray) -> int:
        return int(self.data.words.lengths[rows].sum()) + len(rows)

    def batch(self, rows: np.ndarray, epoch: int) -> ImageBatch:
        return make_batch(self.data, rows)


def encode_captions(data: CaptionedImages, encode: Encode, maximum: int | None = None) -> EncodedCaptions:
    """Encode captions; those longer than `maximum` tokens (<eos> counted) are dropped and counted."""
    owner = np.repeat(np.arange(len(data)), [len(example.captions) for example in data.examples])
    words = encode([caption for example in data.examples for caption in example.captions])
    kept = [n for n, ids in enumerate(words) if maximum is None or len(ids) < maximum]
    return EncodedCaptions(data.images_NYXC, owner[kept], Ragged([words[n] for n in kept]), len(words) - len(kept))


def make_batch(data: EncodedCaptions, rows: np.ndarray) -> ImageBatch:
    target_in_BL, _ = pad_rows(*frame(*data.words.take(rows), (SOS,), ()))
    target_out_BL, _ = pad_rows(*frame(*data.words.take(rows), (), (EOS,)))
    image_BYXC = torch.from_numpy(data.images_NYXC[data.owner[rows]])
    return ImageBatch(image_BYXC, target_in_BL, target_out_BL, int(data.words.lengths[rows].sum()) + len(rows))


def in_order(data: EncodedCaptions, tokens: int) -> list[ImageBatch]:
    """Return batches of all images once, those with short captions first."""
    return [make_batch(data, rows) for rows in rows_by_length(data.words.lengths + 1, tokens)]
