"""Long text as streams: each row of a batch goes on where the same row of the batch before ended, for models with a memory.

The text is cut into as many parts as a batch has rows (Dai et al. 2019, their `LMOrderedIterator`), and batch k has segment k of
every part. An epoch begins all streams again, and cuts the text in another place. Row r of segment k has the number k R + r, so
that a share of a batch, for a process or a part of a step, still says which streams it has.

Dims: R streams, B rows, L tokens of a segment.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from regard.core.errors import UserError
from regard.core.packing import Segment
from regard.core.rng import generator
from regard.data.batching.windows import WindowBatch

FEWEST = 8  # segments of a stream that is scored in order: fewer, and most tokens would be near an empty memory


@dataclass(frozen=True)
class Streams:
    """One flat array of token numbers, read in streams side by side. The array may be a mapped file."""

    ids: np.ndarray
    length: int
    tokens: int  # of a batch
    seed: int
    fixed_shapes = True

    @property
    def rows(self) -> int:
        """Return the number of streams: as many as a batch has room for and the text has segments for."""
        return min(max(1, self.tokens // self.length), (len(self.ids) - 1) // self.length)

    @property
    def segments(self) -> int:
        """Return the number of segments of each stream."""
        return (len(self.ids) - 1) // self.rows // self.length if self.rows else 0

    def _first(self, epoch: int) -> int:
        """Return where the first stream of an epoch begins."""
        spare = len(self.ids) - self.rows * self.segments * self.length
        return int(generator(self.seed, "cut", epoch).integers(spare))

    def plan(self, epoch: int) -> list[np.ndarray]:
        if not self.rows:
            raise UserError(
                f"the text has {len(self.ids):,} tokens, fewer than one segment of {self.length:,} and the token after it."
            )
        return [np.arange(self.rows) + k * self.rows for k in range(self.segments)]

    def count(self, rows: np.ndarray) -> int:
        return len(rows) * self.length

    def batch(self, rows: np.ndarray, epoch: int) -> WindowBatch:
        segment_B, stream_B = np.divmod(rows, self.rows)
        begins_B = self._first(epoch) + (stream_B * self.segments + segment_B) * self.length
        return self._cut(begins_B, self.length, stream_B, segment_B == 0, self.rows)

    def in_order(self) -> Iterator[WindowBatch]:
        """Yield the whole text for scoring, in fewer streams where it is short: every token but the first is predicted once."""
        aims = len(self.ids) - 1
        rows = max(1, min(self.rows, aims // (FEWEST * self.length)))
        begins_R = np.arange(rows) * -(-aims // rows)
        ends_R = np.minimum(begins_R + -(-aims // rows), aims)
        for done in range(0, int((ends_R - begins_R).max()), self.length):
            left_R = np.clip(ends_R - begins_R - done, 0, self.length)
            for length in sorted({*left_R.tolist()} - {0}, reverse=True):
                stream_B = np.flatnonzero(left_R == length)
                yield self._cut(begins_R[stream_B] + done, length, stream_B, np.full(len(stream_B), done == 0), rows)

    def _cut(self, begins_B: np.ndarray, length: int, stream_B: np.ndarray, fresh_B: np.ndarray, streams: int) -> WindowBatch:
        segments = torch.from_numpy(self.ids[begins_B[:, None] + np.arange(length + 1)].astype(np.int64))
        where = Segment(torch.from_numpy(stream_B.astype(np.int64)), torch.from_numpy(fresh_B), streams)
        ids_BL, next_BL = segments[:, :-1].contiguous(), segments[:, 1:].contiguous()
        return WindowBatch(ids_BL, next_BL, ids_BL.numel(), where)
