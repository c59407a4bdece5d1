"""Sequences laid end to end, so that no padding is computed. Dims: N sequences, T tokens of all, B rows of L tokens.

In one row of T (`Packing`), for the kernel that takes variable lengths; or in B rows of L (`Pieces`), for kernels that take a
mask: B small ones cost less than one of T x T.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

LEAST = 32  # the longest length is rounded up to a power of two, at least this, so that compiled kernels keep their shapes


@dataclass(frozen=True, eq=False)
class Packing:
    starts_N: Tensor  # int32; where each sequence starts and, one more, where the last one ends
    ids_T: Tensor  # the number of each token's sequence
    positions_T: Tensor  # its place in it
    longest: int  # no sequence is longer

    @classmethod
    def of(cls, lengths: Sequence[int] | np.ndarray, longest: int | None = None) -> Packing:
        """`longest` where one is known that holds for all batches."""
        starts, ids_T, positions_T = _places(lengths)
        longest = longest or max(LEAST, 1 << (int(max(lengths)) - 1).bit_length())
        return cls(torch.from_numpy(starts.astype(np.int32)), ids_T, positions_T, longest)

    def twice(self) -> Packing:
        """The same sequences once more, behind themselves."""
        return Packing(
            torch.cat([self.starts_N, self.starts_N[1:] + self.starts_N[-1]]),
            torch.cat([self.ids_T, self.ids_T + len(self.starts_N) - 1]),
            self.positions_T.repeat(2),
            self.longest,
        )


@dataclass(frozen=True, eq=False)
class Pieces:
    """Rows that are full, each of one or more sequences."""

    ids_BL: Tensor  # the number of each token's sequence
    positions_BL: Tensor  # its place in it

    @classmethod
    def of(cls, lengths: Sequence[int] | np.ndarray, rows: int) -> Pieces:
        """Sequences in order, of which none goes on from one row into the next."""
        _, ids_T, positions_T = _places(lengths)
        return cls(ids_T.view(rows, -1), positions_T.view(rows, -1))


def _places(lengths: Sequence[int] | np.ndarray) -> tuple[np.ndarray, Tensor, Tensor]:
    """Where sequences that lie end to end start (and the last ends), and each token's sequence and place in it."""
    starts = np.concatenate([[0], np.cumsum(lengths)])
    ids = np.repeat(np.arange(len(lengths)), lengths)
    return starts, torch.from_numpy(ids), torch.from_numpy(np.arange(starts[-1]) - starts[ids])


Words = Tensor | Packing | Pieces  # what of a batch's rows are words: lengths_B of padded ones, or how sequences are laid out
Batch = TypeVar("Batch")


def moved(batch: Batch, device: torch.device) -> Batch:
    """A batch of any kind with its tensors on this device; from pinned memory the copy does not wait."""
    return _each_tensor(batch, lambda tensor: tensor.to(device, non_blocking=True))


def pinned(batch: Batch) -> Batch:
    return _each_tensor(batch, Tensor.pin_memory)


def _each_tensor(batch: Any, change: Any) -> Any:
    parts = {f.name: getattr(batch, f.name) for f in fields(batch)}
    tensors = {name: change(part) for name, part in parts.items() if isinstance(part, Tensor)}
    packings = {name: _each_tensor(part, change) for name, part in parts.items() if isinstance(part, Packing | Pieces)}
    return replace(batch, **tensors, **packings)
