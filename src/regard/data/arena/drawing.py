"""What a generator of labelled sequences draws, and how many draws become a split: counted, parted, in parallel, kept.

A generator is asked for chunk 0, 1, 2, ... of a seed and answers each with however many sequences that chunk is good for. The
first so many of the chunks, in order, are the split, so a smaller split is the beginning of a larger one, whoever drew it.
Where sequences may be so short that chance draws one twice, a hash of its symbols says which split it may be in: of ten, eight
are training's. So no two splits have one in common, whatever the lengths they were asked for. No split has one twice.

Where that takes long, processes of their own share the chunks (see `workers`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from regard.counted import generator
from regard.errors import UserError

PARTS = {"train": range(8), "valid": range(8, 9), "test": range(9, 10)}  # of ten, by the hash
IN_VAIN = 50  # chunks without a single new sequence: there are hardly more


class Range(NamedTuple):
    least: int
    most: int

    @classmethod
    def read(cls, text: str) -> Range:
        """`20-40`, or `20` for that alone."""
        least, dash, most = text.partition("-")
        numbers = [int(part) if part.isascii() and part.isdecimal() and len(part) < 10 else 0 for part in (least, most or least)]
        if not 1 <= numbers[0] <= numbers[1] or bool(dash) != bool(most):
            raise UserError(f"{text!r} is no range of lengths; write two whole numbers, the smaller first, such as 20-40.")
        return cls(*numbers)

    def __str__(self) -> str:
        return f"{self.least}-{self.most}"


class Asked(NamedTuple):
    """What `builtin:NAME@KEY=VALUE/SPLIT` says."""

    name: str
    settings: Any
    split: str
    size: int
    seed: int


class Drawn(NamedTuple):
    """Sequences one after the other, and what they are."""

    flat: np.ndarray  # uint8
    lengths: np.ndarray
    labels: np.ndarray

    @classmethod
    def none(cls) -> Drawn:
        return cls(np.zeros(0, np.uint8), np.zeros(0, np.int64), np.zeros(0, np.int64))

    @classmethod
    def joined(cls, parts: list[Drawn]) -> Drawn:
        return cls(*(np.concatenate(each) for each in zip(*parts)))

    def first(self, count: int) -> Drawn:
        return Drawn(self.flat[: int(self.lengths[:count].sum())], self.lengths[:count], self.labels[:count])

    def kept(self, kept_N: np.ndarray) -> Drawn:
        return Drawn(self.flat[np.repeat(kept_N, self.lengths)], self.lengths[kept_N], self.labels[kept_N])

    def hashes(self) -> np.ndarray:
        """Of 64 bits each: of a hundred thousand sequences no two meet by chance."""
        ends, symbols = np.cumsum(self.lengths), self.flat.tobytes()
        begins = (ends - self.lengths).tolist()
        found = [blake2b(symbols[begin:end], digest_size=8).digest() for begin, end in zip(begins, ends.tolist())]
        return np.frombuffer(b"".join(found), ">u8").astype(np.uint64)


class Generator(NamedTuple):
    """Of one kind of sequences."""

    name: str
    draw: Callable[[Any, np.random.Generator], Drawn]
    parted: bool  # by a hash; else every split has a stream of chunks of its own
    rate: int  # sequences a second, about

    def chunk(self, settings: Any, split: str, seed: int, number: int) -> Drawn:
        return self.draw(settings, generator(seed, self.name if self.parted else f"{self.name}/{split}", number))


def drawn(kind: Generator, chunks: Iterator[Drawn], split: str, count: int) -> Drawn:
    """The first `count` sequences of a split."""
    seen, parts, missing, in_vain = set[int](), [Drawn.none()], count, 0
    for chunk in chunks:
        hashes = chunk.hashes()
        _, firsts = np.unique(hashes, return_index=True)
        fresh = np.zeros(len(hashes), bool)
        fresh[firsts] = [number not in seen for number in hashes[firsts].tolist()]
        if kind.parted:
            fresh &= np.isin(hashes % 10, PARTS[split])
        seen.update(hashes[fresh].tolist())
        part = chunk.kept(fresh).first(missing)
        parts.append(part)
        missing -= len(part.lengths)
        in_vain = 0 if len(part.lengths) else in_vain + 1
        if not missing:
            break
        if in_vain == IN_VAIN:
            raise UserError(
                f"builtin:{kind.name}/{split}: with these settings only {count - missing:,} different sequences were found, of "
                f"{count:,} wanted; ask for longer ones, or for fewer with @count={max(1, count - missing)}."
            )
    return Drawn.joined(parts)
