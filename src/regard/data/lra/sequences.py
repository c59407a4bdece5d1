"""Sequences of symbols with labels, kept as numbers (pixels, trees, brackets); the text of one is made on demand.

A hundred thousand pictures of a thousand pixels are a hundred megabytes of bytes, and would be five gigabytes of words. To all
who ask, they are labelled examples like others; who is in a hurry (see `tasks/classification/reader.py`) takes the numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, cast, overload

import numpy as np

from regard.core.errors import UserError
from regard.data.batching.pairs import Ragged

if TYPE_CHECKING:
    from regard.data.sources.labelled import Example

SHOWN = 20  # symbols of a long sequence, for people
AT_ONCE = 2**22  # symbols that are looked up at a time


@dataclass(frozen=True, eq=False)
class Sequences(Sequence["Example"]):
    symbols: tuple[str, ...]  # what each number is called; no spaces in it
    flat: np.ndarray  # all sequences, one after the other
    lengths: np.ndarray
    names: tuple[str, ...]  # of the labels
    labels: np.ndarray
    where: str  # for complaints
    starts: np.ndarray | None = None  # in `flat`, where not all of it is taken, or not in its order

    @cached_property
    def begins(self) -> np.ndarray:
        return np.cumsum(self.lengths) - self.lengths if self.starts is None else self.starts

    def __len__(self) -> int:
        return len(self.lengths)

    @overload
    def __getitem__(self, n: int) -> Example: ...
    @overload
    def __getitem__(self, n: slice) -> Sequences: ...
    def __getitem__(self, n: int | slice) -> Example | Sequences:
        if isinstance(n, slice):
            return self.take(np.arange(len(self))[n])
        if not -len(self) <= n < len(self):
            raise IndexError(n)
        return cast("Example", Numbered(self, n % len(self)))

    def take(self, rows: np.ndarray) -> Sequences:
        """Return these sequences, in this order."""
        return Sequences(
            self.symbols, self.flat, self.lengths[rows], self.names, self.labels[rows], self.where, self.begins[rows]
        )

    def between(self, table: np.ndarray, before: int, after: int, most: int) -> Ragged:
        """Return all sequences as ids of a vocabulary, each between two special tokens and cut to `most` symbols."""
        kept, made = np.minimum(self.lengths, most), Ragged([])
        made.lengths = kept + 2
        made.offsets = np.concatenate([[0], np.cumsum(made.lengths)])
        made.flat = np.full(int(made.offsets[-1]), after, np.int32)
        made.flat[made.offsets[:-1]] = before
        for some in np.array_split(np.arange(len(self)), -(-len(made.flat) // AT_ONCE)):
            place = np.arange(int(kept[some].sum())) - np.repeat(np.cumsum(kept[some]) - kept[some], kept[some])
            there, here = np.repeat(made.offsets[some] + 1, kept[some]), np.repeat(self.begins[some], kept[some])
            made.flat[there + place] = table[self.flat[here + place]]
        return made

    def numbers(self, n: int) -> np.ndarray:
        begin = int(self.begins[n])
        return self.flat[begin : begin + int(self.lengths[n])]


@dataclass(frozen=True, eq=False)
class Numbered:
    """One of them: all that an `Example` has."""

    of: Sequences
    number: int
    second = None

    @property
    def text(self) -> str:
        symbols = self.of.symbols
        return " ".join([symbols[n] for n in self.of.numbers(self.number).tolist()])

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.text,)

    @property
    def key(self) -> int:
        return hash(self.of.numbers(self.number).tobytes())

    @property
    def shown(self) -> tuple[str, ...]:
        beginning = " ".join([self.of.symbols[n] for n in self.of.numbers(self.number)[:SHOWN].tolist()])
        return (f"{self.place}: {beginning} ...",)

    @property
    def label(self) -> str:
        return self.of.names[self.of.labels[self.number]]

    @property
    def place(self) -> str:
        return f"{self.of.where}, number {self.number + 1}"


def concatenate(parts: Sequence[Sequences], limit: int | None = None) -> Sequences:
    """Concatenate sets of one kind, up to `limit` sequences."""
    first = parts[0]
    for other in parts[1:]:
        if other.symbols != first.symbols or other.names != first.names:
            raise UserError(f"{other.where} and {first.where} hold sequences of different kinds; give them to different runs.")
    if len(parts) == 1:
        return first if limit is None or limit >= len(first) else first[:limit]
    starts, before = list[np.ndarray](), 0
    for part in parts:
        starts.append(part.begins + before)
        before += len(part.flat)
    lengths, labels = (np.concatenate([getattr(part, key) for part in parts])[:limit] for key in ("lengths", "labels"))
    flat, where = np.concatenate([part.flat for part in parts]), " and ".join(part.where for part in islice(parts, 3))
    return Sequences(first.symbols, flat, lengths, first.names, labels, where, np.concatenate(starts)[:limit])
