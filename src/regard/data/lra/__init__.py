"""Built-in sequences of symbols with labels, drawn by rule: those of the Long Range Arena that are, and smaller ones.

    builtin:listops/train                      96,000 nested lists of 501 to 1,999 symbols and what they come to
    builtin:pathfinder/train                   160,000 pictures of 32 x 32 pixels: are the two dots joined?
    builtin:pathfinder@side=128/train          the same at 128 x 128, which is Path-X
    builtin:pathfinder@dashes=6/train          with shorter paths, which are easier to follow
    builtin:parity@length=2-20/train           is the number of ones odd?
    builtin:dyck@kinds=2@depth=4/train         are the brackets balanced?

Settings stand between the name and the split, each behind an @; all sets take @count=N and @seed=N. What is drawn is kept in the
cache folder, as a file that can be deleted at any time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, NamedTuple

from regard.core.errors import UserError, nearest
from regard.data.lra import formal, listops, pathfinder
from regard.data.lra.generate import Asked, Drawn, Generator, Range, chunks_of, drawn, kept
from regard.data.lra.sequences import Sequences

SEED = 2021
PREFIX = "builtin:"


class Set(NamedTuple):
    generator: Generator
    settings: type
    symbols: tuple[str, ...]
    labels: tuple[str, ...]
    sizes: Mapping[str, int]


ARENA_SIZES = {"train": 96_000, "valid": 2_000, "test": 2_000}
PICTURES = {"train": 160_000, "valid": 20_000, "test": 20_000}
SMALL_SIZES = {"train": 20_000, "valid": 1_000, "test": 2_000}
LISTOPS = Generator("listops", listops.draw, parted=True, rate=6000)
PATHFINDER = Generator("pathfinder", pathfinder.draw, parted=False, rate=500)
PARITY = Generator("parity", formal.draw_parity, parted=True, rate=100_000)
DYCK = Generator("dyck", formal.draw_dyck, parted=True, rate=30_000)
SETS = {
    "listops": Set(LISTOPS, listops.ListOps, listops.SYMBOLS, listops.LABELS, ARENA_SIZES),
    "pathfinder": Set(PATHFINDER, pathfinder.Pathfinder, pathfinder.SYMBOLS, pathfinder.LABELS, PICTURES),
    "parity": Set(PARITY, formal.Parity, formal.BITS, formal.PARITIES, SMALL_SIZES),
    "dyck": Set(DYCK, formal.Dyck, formal.BRACKETS, formal.BALANCED, SMALL_SIZES),
}


def is_drawn(entry: str) -> bool:
    """Whether this names one of these sets."""
    return entry.startswith(PREFIX) and _name(entry) in SETS


def draw_sequences(entry: str, limit: int | None = None) -> Sequences:
    """The whole split, or its first `limit`."""
    asked = asked_for(entry, limit)
    chosen = SETS[asked.name]

    def make() -> Drawn:
        with chunks_of(entry, chosen.generator, asked) as chunks:
            return drawn(chosen.generator, chunks, asked.split, asked.size)

    found = kept(str(asked), make)
    return Sequences(chosen.symbols, found.flat, found.lengths, chosen.labels, found.labels, entry)


def _name(entry: str) -> str:
    return entry.removeprefix(PREFIX).partition("/")[0].partition("@")[0]


def asked_for(entry: str, limit: int | None = None) -> Asked:
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
        found[key] = Range.read(value) if kinds[key] == "Range" else _whole(entry, key, value)
    count, seed = found.pop("count", chosen.sizes[split]), found.pop("seed", SEED)
    if not count:
        raise UserError(f"{entry}: @count must be at least 1.")
    return Asked(name, chosen.settings(**found), split, count if limit is None else min(limit, count), seed)


def _whole(entry: str, key: str, value: str) -> int:
    if not (value.isascii() and value.isdecimal() and len(value) < 10):
        raise UserError(f"{entry}: @{key}={value} must be a whole number below a billion, such as {2 if key == 'kinds' else 32}.")
    return int(value)
