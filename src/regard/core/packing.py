"""Sequences laid end to end, so that no padding is computed. Dims: N sequences, T tokens of all, B rows of L tokens.

In one row of T (`Packing`), for the kernel that takes variable lengths; or in B rows of L (`Pieces`), for kernels that take a
mask: B small ones cost less than one of T x T.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

GRAIN = 128  # tokens, of which packed rows have a multiple where few sizes are to occur
IGNORED = -100  # the label of what is no text
LEAST = 32  # the longest length is rounded up to a power of two, at least this, so that compiled kernels keep their shapes


@dataclass(frozen=True, eq=False)
class Packing:
    starts_N: Tensor  # int32; where each sequence starts and, one more, where the last one ends
    ids_T: Tensor  # the number of each token's sequence
    positions_T: Tensor  # its place in it
    given_N: Tensor  # which sequences are no filler
    longest: int  # no sequence is longer

    @classmethod
    def of(cls, lengths: Sequence[int] | np.ndarray, longest: int | None = None, given: int | None = None) -> Packing:
        """Build from lengths; `longest` bounds all batches, if known, and sequences after the first `given` are filler."""
        starts, ids_T, positions_T = _places(lengths)
        given_N = torch.arange(len(lengths)) < (len(lengths) if given is None else given)
        longest = longest or max(LEAST, 1 << (int(max(lengths)) - 1).bit_length())
        return cls(torch.from_numpy(starts.astype(np.int32)), ids_T, positions_T, given_N, longest)

    @classmethod
    def filled(cls, lengths: np.ndarray, pieces: int = 0) -> Packing:
        """Build with filler sequences behind, some of them empty, so that few sizes and powers of two of sequences occur.

        The filler is split into `pieces` sequences, by default as few as are no longer than the longest sequence.
        """
        pieces, tokens = pieces or count_fillers(lengths), int(lengths.sum())
        # Nearly equal, none empty, so that no sequence starts where the row ends.
        filler = np.diff((round_up(tokens + pieces) - tokens) * np.arange(pieces + 1) // pieces)
        empty = (1 << (len(lengths) + len(filler) - 1).bit_length()) - len(lengths) - len(filler)
        return cls.of(np.concatenate([lengths, np.zeros(empty, np.int64), filler]), given=len(lengths))

    @property
    def sequences(self) -> int:
        return len(self.starts_N) - 1

    @property
    def tokens(self) -> int:
        return len(self.ids_T)

    def twice(self) -> Packing:
        """Return the same sequences twice, one copy behind the other."""
        return Packing(
            torch.cat([self.starts_N, self.starts_N[1:] + self.starts_N[-1]]),
            torch.cat([self.ids_T, self.ids_T + len(self.starts_N) - 1]),
            self.positions_T.repeat(2),
            self.given_N.repeat(2),
            self.longest,
        )


@dataclass(frozen=True, eq=False)
class Pieces:
    """Rows that are full, each of one or more sequences."""

    ids_BL: Tensor  # the number of each token's sequence
    positions_BL: Tensor  # its place in it

    @classmethod
    def of(cls, lengths: Sequence[int] | np.ndarray, rows: int) -> Pieces:
        """Build from lengths in order; no sequence may continue from one row into the next."""
        _, ids_T, positions_T = _places(lengths)
        return cls(ids_T.view(rows, -1), positions_T.view(rows, -1))


@dataclass(frozen=True, eq=False)
class Segment:
    """Rows that go on where rows of an earlier batch ended, each in a stream of its own."""

    streams_B: Tensor  # the number of each row's stream
    fresh_B: Tensor  # true where it begins here
    streams: int  # how many there are


def round_up(count: int) -> int:
    """Round up to one of few sizes: a multiple of 128, and beyond 4,096 at most a sixteenth too large."""
    return -(-count // _grain(count)) * _grain(count)


def _grain(count: int) -> int:
    return max(GRAIN, 1 << max(0, count.bit_length() - 5))


def count_fillers(lengths: np.ndarray) -> int:
    """Return how many filler sequences are needed so that none is longer than the longest sequence, on either side."""
    tokens, longest = int(lengths.sum()), int(max(lengths))
    most = round_up(tokens + 1) - tokens + _grain(2 * tokens)
    return -(-most // max(1, longest - 1))


def fill_up(flat: np.ndarray, size: int, filler: int = 0) -> Tensor:
    """Return `flat` as a tensor of this size, filled up with `filler`."""
    return torch.from_numpy(np.append(flat, np.full(size - len(flat), filler, flat.dtype)))


def _places(lengths: Sequence[int] | np.ndarray) -> tuple[np.ndarray, Tensor, Tensor]:
    """Return the starts of sequences laid end to end (and the last end), and each token's sequence number and position."""
    starts = np.concatenate([[0], np.cumsum(lengths)])
    ids = np.repeat(np.arange(len(lengths)), lengths)
    return starts, torch.from_numpy(ids), torch.from_numpy(np.arange(starts[-1]) - starts[ids])


NESTED = Packing | Pieces | Segment  # parts of a batch that hold tensors
Words = Tensor | Packing | Pieces  # what of a batch's rows are words: lengths_B of padded ones, or how sequences are laid out
Batch = TypeVar("Batch")


def to_device(batch: Batch, device: torch.device) -> Batch:
    """Copy a batch of any kind to a device; from pinned memory the copy does not wait."""
    return _each_tensor(batch, lambda tensor: tensor.to(device, non_blocking=True))


def pin_memory(batch: Batch) -> Batch:
    return _each_tensor(batch, Tensor.pin_memory)


def copy_to(batch: Batch, device: torch.device) -> Batch:
    return _each_tensor(batch, lambda tensor: tensor.to(device, copy=True))


def tensors(batch: Any) -> list[Tensor]:
    """Return all tensors of a batch of any kind, those of its packing included."""
    parts = [getattr(batch, f.name) for f in fields(batch)]
    own = [part for part in parts if isinstance(part, Tensor)]
    return own + [tensor for part in parts if isinstance(part, NESTED) for tensor in tensors(part)]


def shape_key(batch: Any) -> Hashable:
    """Return a key that is equal for batches of the same shapes and settings: all but tensor contents and the token count."""
    sizes = tuple((tensor.shape, tensor.dtype) for tensor in tensors(batch))
    return type(batch), sizes, tuple(_values(batch))


def _values(batch: Any) -> Iterator[Hashable]:
    for f in fields(batch):
        part = getattr(batch, f.name)
        if isinstance(part, NESTED):
            yield from _values(part)
        elif not isinstance(part, Tensor) and f.name != "tokens":
            yield f.name, part


def _each_tensor(batch: Any, change: Any) -> Any:
    parts = {f.name: getattr(batch, f.name) for f in fields(batch)}
    tensors = {name: change(part) for name, part in parts.items() if isinstance(part, Tensor)}
    packings = {name: _each_tensor(part, change) for name, part in parts.items() if isinstance(part, NESTED)}
    return replace(batch, **tensors, **packings)
