"""Memory by counting: what a batch of texts takes at most, before any of them joins.

A state has one row for each text, with room for the longest, in buffers whose rows grow by doubling and whose slots grow in
strides. Once grown they keep their size until the batch is empty. So the memory of a batch is that of one row at the longest,
times the rows rounded up to a power of two, both since the batch was empty the last time.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import torch

from regard.model.state.kv_cache import round_to_stride

SCORES = 16  # bytes of a row's score for one token of the vocabulary: logits, log-probabilities and what they are sorted by
MOST_KNOWN = 4096
CANDIDATES = 40  # bytes of a candidate of a beam, of which a lane has two a step


class Need(NamedTuple):
    """The memory of one text at its longest."""

    rows: int
    slots: int  # of keys and values: of the prompt, and of each step as many as there are lanes
    places: int  # of the source
    limit: int  # tokens to write


@dataclass(frozen=True, eq=False)
class Sizes:
    """How the memory of a row follows from its sizes, for one model and one number of lanes."""

    row_bytes: Callable[[int, int], int]  # by slots and places
    lanes: int
    vocabulary: int
    known: dict[Need, int] = field(default_factory=dict)  # by what was needed so far

    def bytes(self, need: Need) -> int:
        """Return the memory of a batch whose longest row this is, for all its rows."""
        if (found := self.known.get(need)) is None:
            if len(self.known) >= MOST_KNOWN:
                self.known.clear()
            found = self.known[need] = self._count(need)
        return found

    def _count(self, need: Need) -> int:
        rows = 1 << (need.rows - 1).bit_length()
        scores = self.lanes * (self.vocabulary * SCORES + need.limit * 2 * CANDIDATES)
        return rows * (self.row_bytes(round_to_stride(max(1, need.slots)), need.places) + scores)


class Reserved:
    """The memory of one batch since it was empty."""

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        self.largest = Need(0, 0, 0, 0)

    @property
    def bytes(self) -> int:
        return self.sizes.bytes(self.largest) if self.largest.rows else 0

    def with_more(self, need: Need, rows: int) -> Need:
        """Return the largest need when this joins `rows` that are there."""
        most = Need(*map(max, self.largest, need))
        return most._replace(rows=max(self.largest.rows, rows + need.rows))


def free_memory(device: torch.device) -> int:
    """Return the bytes that this process could still take on a device."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    table = Path("/proc/meminfo")
    if table.exists():
        sizes = dict(line.split(":") for line in table.read_text("utf-8").splitlines())
        if "MemAvailable" in sizes:
            return int(sizes["MemAvailable"].split()[0]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
