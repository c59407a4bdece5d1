"""Attention as the page asks for it, rebuilt from the probe's references: exact rows and tiles, pooled overviews, thumbnails.

Nothing is built that is not shown: a head of 4,096 tokens comes in blocks of rows, and of each block what is asked for stays.
Pooling takes the largest weight of a tile, so that a single strong link is seen from afar; the page says that it was pooled.

Dims: H heads, L queries, M keys, R and C rows and columns asked for, Y and X of a picture.

What each head is like on this text, for the atlas; and how long its values are, for those who weigh weights by them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from regard.lens.analyses.head_statistics import MEASURES, head_statistics
from regard.model.probe import Seen
from regard.studio.passes import Look

BLOCK = 1 << 20  # weights held at once
THUMB = 32  # rows and columns of a thumbnail at most
MOST = 1 << 22  # exact weights in one answer


def shape(seen: Seen) -> tuple[int, int, int]:
    """Heads, queries, keys."""
    return seen.q_BHLK.shape[1], seen.q_BHLK.shape[2], seen.k_BHMK.shape[2]


@torch.no_grad()
def blocks(seen: Seen, heads: Sequence[int], rows: range) -> Iterator[tuple[range, np.ndarray]]:
    """weights_HRM of these heads, some rows at a time."""
    step = max(1, BLOCK // (len(heads) * shape(seen)[2]))
    for first in range(0, len(rows), step):
        some = rows[first : first + step]
        yield some, seen.weights(heads, some)[0].float().cpu().numpy()


def exact(seen: Seen, heads: Sequence[int], rows: range, columns: range) -> np.ndarray:
    """weights_HRC, float32."""
    found = np.empty((len(heads), len(rows), len(columns)), np.float32)
    for some, weights_HRM in blocks(seen, heads, rows):
        begin = some.start - rows.start
        found[:, begin : begin + len(some)] = weights_HRM[:, :, columns.start : columns.stop]
    return found


def pooled(seen: Seen, heads: Sequence[int], rows: range, columns: range, size: int) -> np.ndarray:
    """largest_HYX: the largest weight of each tile, with at most `size` tiles along either side."""
    tall, wide = (max(1, -(-len(side) // size)) for side in (rows, columns))
    down, across = -(-len(rows) // tall), -(-len(columns) // wide)
    found = np.zeros((len(heads), down, across), np.float32)
    for some, weights_HRM in blocks(seen, heads, rows):
        part = weights_HRM[:, :, columns.start : columns.stop]
        part_HRX = np.maximum.reduceat(part, np.arange(0, len(columns), wide), axis=2) if wide > 1 else part
        for offset, row in enumerate(some):
            y = (row - rows.start) // tall
            np.maximum(found[:, y], part_HRX[:, offset], out=found[:, y])
    return found


def as_bytes(weights: np.ndarray) -> np.ndarray:
    """0 to 1 as 0 to 255: for pictures, whose colours are no finer."""
    return np.rint(np.clip(weights, 0, 1) * 255).astype(np.uint8)


def thumbnails(seen: Seen) -> np.ndarray:
    """largest_HYX of all heads, each scaled to its own largest weight, as bytes."""
    heads, queries, keys = shape(seen)
    found = pooled(seen, range(heads), range(queries), range(keys), THUMB)
    return as_bytes(found / np.maximum(found.max((1, 2), keepdims=True), 1e-9))


def statistics(look: Look) -> dict[str, Any]:
    """By measure, by attention, a number for each of its heads."""
    found = head_statistics(look.subject, look.seen)
    return {measure: found.field(measure) for measure in MEASURES}
