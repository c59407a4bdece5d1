"""Labelled texts become batches of numbers: each text between its marks, with texts of like length, or packed end to end.

    one text    start text end
    a pair      start text between second end

Which ids the marks are is for the model's family to say. Dims: N texts, B rows of L tokens; padded, B is N; packed, it is 1.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.counted import generator
from regard.data.batches import Ragged, cuts, padded
from regard.data.packing import Packing, Words, moved


class Marks(NamedTuple):
    start: int
    between: int
    end: int

    def around(self, texts: Sequence[list[int]], room: int) -> tuple[list[int], int]:
        """The ids of a text or a pair, cut to fit the room, and where the second text begins, or else the end."""
        first, *others = _cut(texts, room - 1 - len(texts))
        if not others:
            return [self.start, *first, self.end], len(first) + 2
        return [self.start, *first, self.between, *others[0], self.end], len(first) + 2

    def length(self, texts: Sequence[list[int]]) -> int:
        """Of the ids of these texts, nothing cut."""
        return 1 + sum(len(ids) + 1 for ids in texts)


def _cut(texts: Sequence[list[int]], room: int) -> list[list[int]]:
    """The beginning of each, the longer of two giving way first."""
    if len(texts) == 1:
        return [texts[0][:room]]
    first, second = texts
    of_second = min(len(second), max(room // 2, room - len(first)))
    return [first[: room - of_second], second[:of_second]]


@dataclass(frozen=True)
class LabelledTexts:
    ids: Ragged  # marks included
    seconds: np.ndarray  # where in each the second text begins
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.ids)

    def digest(self) -> str:
        parts = (self.ids.offsets, self.ids.flat, self.seconds, self.labels)
        return hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()


@dataclass(frozen=True)
class LabelledBatch:
    ids_BL: Tensor
    words: Words  # lengths_B, or how the texts are packed
    segments_BL: Tensor  # 0 for the first text, 1 for the second
    labels_N: Tensor
    tokens: int  # what the loss is counted in: here, texts

    def to(self, device: torch.device) -> LabelledBatch:
        return moved(self, device)


def make_batch(data: LabelledTexts, rows: np.ndarray, packed: bool = False) -> LabelledBatch:
    flat, lengths = data.ids.take(rows)
    places = np.arange(len(flat)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    segments = (places >= np.repeat(data.seconds[rows], lengths)).astype(np.int64)
    labels_N = torch.from_numpy(data.labels[rows])
    if packed:
        ids_BL, segments_BL = (torch.from_numpy(part)[None] for part in (flat.astype(np.int64), segments))
        return LabelledBatch(ids_BL, Packing.of(lengths), segments_BL, labels_N, len(rows))
    ids_BL, lengths_B = padded(flat, lengths)
    return LabelledBatch(ids_BL, lengths_B, padded(segments, lengths)[0], labels_N, len(rows))


@dataclass(frozen=True)
class LabelledBatches:
    """As a source of batches: what the loader draws from."""

    data: LabelledTexts
    tokens: int  # of a batch, padding counted
    seed: int
    packed: bool = False
    fixed_shapes = False

    def plan(self, epoch: int) -> list[np.ndarray]:
        random = generator(self.seed, "shuffle", epoch)
        order = np.lexsort((random.random(len(self.data)), self.data.ids.lengths))
        batches = [order[start:end] for start, end in cuts(self.data.ids.lengths[order], self.tokens)]
        return [batches[n] for n in random.permutation(len(batches))]

    def count(self, rows: np.ndarray) -> int:
        return len(rows)

    def batch(self, rows: np.ndarray, epoch: int) -> LabelledBatch:
        return make_batch(self.data, rows, self.packed)

    def in_order(self) -> list[LabelledBatch]:
        """For scoring: every text once, those of like length together."""
        order = np.argsort(self.data.ids.lengths, kind="stable")
        return [make_batch(self.data, order[start:end]) for start, end in cuts(self.data.ids.lengths[order], self.tokens)]
