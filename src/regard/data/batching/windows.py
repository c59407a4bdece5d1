"""Long text as windows of equal length, each token's aim the token after it.

The text is one stream of documents, each followed by an end token. A token sees all of its window that comes before it, as in
GPT-2; or, with `apart`, of its own document only, in which positions then start again. The end token between two documents goes
with the second: it is the last aim of the one and sees nothing of it, and its own aim is the first word of the other. So no word
is predicted from another document, and a model that is to write without a prompt starts from an end token as it did here.

Dims: B windows, L tokens of each, T tokens of all, N documents that begin inside a window.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from regard.core.errors import UserError
from regard.core.packing import Packing, Pieces, Segment, to_device
from regard.core.rng import generator


@dataclass(frozen=True)
class WindowBatch:
    """`documents` says who shares a document, or which stream each row goes on with; None where each row is one document."""

    ids_BL: Tensor
    next_BL: Tensor
    tokens: int
    documents: Packing | Pieces | Segment | None = None

    to = to_device


@dataclass(frozen=True)
class Windows:
    """One flat array of token numbers, cut into windows that do not overlap.

    Every epoch cuts it in other places, so that a token is not always met with the same ones before it; what is left over, less
    than two windows, is not trained on then. The array may be a mapped file of any size: only what a batch needs is read.
    """

    ids: np.ndarray
    length: int
    tokens: int  # of a batch
    seed: int
    starts: np.ndarray = field(default_factory=lambda: np.zeros(1, np.int64))  # of the documents, ascending
    ended: bool = True  # by an end token, each of them
    apart: bool = False
    packed: bool = False  # documents that are apart in one row, for a kernel of variable lengths; else in rows, with masks

    @property
    def fixed_shapes(self) -> bool:
        return not (self.apart and self.packed)

    def __len__(self) -> int:
        """Return the number of windows of an epoch: one fewer than possible, to have room to cut elsewhere."""
        whole = (len(self.ids) - 1) // self.length
        return whole - 1 if whole > 1 else whole

    def _first(self, epoch: int) -> int:
        """Return where the first window of an epoch begins."""
        return int(generator(self.seed, "cut", epoch).integers(len(self.ids) - len(self) * self.length))

    def plan(self, epoch: int) -> list[np.ndarray]:
        if len(self) < 1:
            raise UserError(
                f"the text has {len(self.ids):,} tokens, fewer than one window of {self.length:,} and the token after it."
            )
        return self._batches(generator(self.seed, "shuffle", epoch).permutation(len(self)))

    def count(self, rows: np.ndarray) -> int:
        return len(rows) * self.length

    def batch(self, rows: np.ndarray, epoch: int) -> WindowBatch:
        return self._cut(self._first(epoch) + rows * self.length, self.length)

    def in_order(self) -> Iterator[WindowBatch]:
        """Yield all windows for scoring: every token but the very first is predicted once, so the last window may be short."""
        whole = (len(self.ids) - 1) // self.length
        for rows in self._batches(np.arange(whole)):
            yield self._cut(rows * self.length, self.length)
        done = whole * self.length
        if rest := len(self.ids) - 1 - done:
            yield self._cut(np.array([done]), rest)

    def _batches(self, rows: np.ndarray) -> list[np.ndarray]:
        size = max(1, self.tokens // self.length)
        return [rows[start : start + size] for start in range(0, len(rows), size)]

    def _cut(self, begins_B: np.ndarray, length: int) -> WindowBatch:
        """Return windows of this length that begin at these places."""
        windows = torch.from_numpy(self.ids[begins_B[:, None] + np.arange(length + 1)].astype(np.int64))
        ids_BL, next_BL = windows[:, :-1].contiguous(), windows[:, 1:].contiguous()
        if not self.apart:
            return WindowBatch(ids_BL, next_BL, ids_BL.numel())
        lengths = self._pieces(begins_B, length)
        if self.packed:
            packing = Packing.of(lengths, longest=self.length)
            return WindowBatch(ids_BL.view(1, -1), next_BL.view(1, -1), ids_BL.numel(), packing)
        # Without a border in any row the kernel needs no mask.
        pieces = Pieces.of(lengths, len(begins_B)) if len(lengths) > len(begins_B) else None
        return WindowBatch(ids_BL, next_BL, ids_BL.numel(), pieces)

    def _pieces(self, begins_B: np.ndarray, length: int) -> np.ndarray:
        """Return the lengths of the parts of documents in each window, in order."""
        first_B = np.searchsorted(self.starts, begins_B + self.ended, "right")
        inside_B = np.searchsorted(self.starts, begins_B + self.ended + length, "left") - first_B
        rows_N = np.repeat(np.arange(len(begins_B)), inside_B)
        nth_N = np.arange(len(rows_N)) - np.repeat(np.cumsum(inside_B) - inside_B, inside_B)
        places_N = self.starts[first_B[rows_N] + nth_N] - self.ended - begins_B[rows_N]
        edges = np.concatenate([np.arange(len(begins_B) + 1) * length, rows_N * length + places_N])
        return np.diff(np.sort(edges))
