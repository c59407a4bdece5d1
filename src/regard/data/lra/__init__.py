"""Built-in sequences of symbols with labels, drawn by rule: those of the Long Range Arena that are, and smaller ones.

    builtin:listops/train                      96,000 nested lists of 501 to 1,999 symbols and what they come to
    builtin:pathfinder/train                   160,000 pictures of 32 x 32 pixels: are the two dots joined?
    builtin:pathfinder@side=128/train          the same at 128 x 128, which is Path-X
    builtin:pathfinder@dashes=6/train          with shorter paths, which are easier to follow
    builtin:parity@length=2-20/train           is the number of ones odd?
    builtin:dyck@kinds=2@depth=4/train         are the brackets balanced?

Settings stand between the name and the split, each behind an @; all sets take @count=N and @seed=N. What is drawn is kept in the
cache folder, as a file that can be deleted at any time.

`Sequences` keeps them, and pictures, as numbers; the text of one is made on demand. A hundred thousand pictures of a thousand
pixels are a hundred megabytes of bytes, and would be five gigabytes of words. To all who ask, they are labelled examples like
others; who is in a hurry (see `tasks/classification/reader.py`) takes the numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, cast, overload

import numpy as np

from regard.core.errors import UserError, nearest
from regard.data.batching.pairs import Ragged
from regard.data.lra import formal, pathfinder
from regard.data.lra.generate import Generator, Range, Request, SequenceArrays, collect_split, generate_chunks, load_or_generate

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


SEED = 2021
PREFIX = "builtin:"
ARENA_SIZES = {"train": 96_000, "valid": 2_000, "test": 2_000}
PICTURES = {"train": 160_000, "valid": 20_000, "test": 20_000}
SMALL_SIZES = {"train": 20_000, "valid": 1_000, "test": 2_000}
PATHS = pathfinder.Pathfinder, pathfinder.SYMBOLS, pathfinder.LABELS, PICTURES
GENERATORS = (
    Generator("listops", formal.draw_listops, formal.ListOps, formal.SYMBOLS, formal.DIGITS, ARENA_SIZES, rate=6000),
    Generator("pathfinder", pathfinder.draw, *PATHS, rate=500, parted=False),
    Generator("parity", formal.draw_parity, formal.Parity, formal.BITS, formal.PARITIES, SMALL_SIZES, rate=100_000),
    Generator("dyck", formal.draw_dyck, formal.Dyck, formal.BRACKETS, formal.BALANCED, SMALL_SIZES, rate=30_000),
)
SETS = {generator.name: generator for generator in GENERATORS}


def is_generated(entry: str) -> bool:
    """Return True if the entry names one of these sets."""
    return entry.startswith(PREFIX) and entry.removeprefix(PREFIX).partition("/")[0].partition("@")[0] in SETS


def generate_sequences(entry: str, limit: int | None = None) -> Sequences:
    """Return the whole split, or its first `limit` sequences."""
    asked = parse_request(entry, limit)
    chosen = SETS[asked.name]

    def make() -> SequenceArrays:
        with generate_chunks(entry, chosen, asked) as chunks:
            return collect_split(chosen, chunks, asked.split, asked.size)

    found = load_or_generate(str(asked), make)
    return Sequences(chosen.symbols, found.flat, found.lengths, chosen.labels, found.labels, entry)


def parse_request(entry: str, limit: int | None = None) -> Request:
    head, _, split = entry.removeprefix(PREFIX).partition("/")
    name, *assignments = head.split("@")
    chosen = SETS[name]
    if split not in chosen.sizes:
        given = f"no split {split!r}{nearest(split, chosen.sizes)}" if split else "to say which split: /train, /valid or /test."
        raise UserError(f"{entry} has {given}")
    kinds = {field.name: field.type for field in fields(chosen.settings)} | {"count": "int", "seed": "int"}
    found: dict[str, Any] = {}
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if key not in kinds or not equals:
            raise UserError(f"{entry}: {assignment!r} is not a setting of {name}, written @KEY=VALUE{nearest(key, kinds)}")
        if kinds[key] == "Range":
            found[key] = Range.read(value)
        elif value.isascii() and value.isdecimal() and len(value) < 10:
            found[key] = int(value)
        else:
            such = 2 if key == "kinds" else 32
            raise UserError(f"{entry}: @{key}={value} must be a whole number below a billion, such as {such}.")
    count, seed = found.pop("count", chosen.sizes[split]), found.pop("seed", SEED)
    if not count:
        raise UserError(f"{entry}: @count must be at least 1.")
    return Request(name, chosen.settings(**found), split, count if limit is None else min(limit, count), seed)
