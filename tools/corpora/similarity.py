"""Built-in pairs of opinions and how alike they are, from 0 to 4: by what is said of food and of service, in whatever words.

Each judges both, from awful to superb, in any order and in its own words; *not good* is bad, and *the bread* is food as *the
soup* is. Each step that they are apart, on either, costs half a point. So the same words may be far apart, and others alike:

    the soup was good and the waiter was awful .
    the hostess was terrible but the bread was not poor .      4
    the soup was not good and the waiter was awful .           3
    the soup was awful and the waiter was good .               1

The share of words in common correlates with these numbers by 0.17 (Pearson). One in ten of all (thing, adjective) is kept out of
training: half of the validation and test pairs contain one.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import NamedTuple
from zlib import crc32

from tools.corpora import shared_out
from tools.corpora.meaning import Draw

SEED = 2017
SIZES = {"train": 10_000, "valid": 500, "test": 1_000}
STREAM = 30_000  # pairs to draw, enough for these sizes
ONE_HELD_OUT_IN = 10
KEPT = 0.3  # of the second opinion's judgements: taken from the first
NEGATED = 0.3  # of those that can be

FOOD = ("soup", "bread", "fish", "dessert")
SERVICE = ("waiter", "hostess", "owner", "team")
GRADES = (("awful", "terrible"), ("bad", "poor"), ("fair", "average"), ("good", "nice"), ("superb", "excellent"))
OPPOSITE = {1: 3, 3: 1}  # what is not good is bad; what is not awful may be anything
JOINTS = ("and", "but", "while")


class Likeness(NamedTuple):
    text: str
    second: str
    label: str


class Opinion(NamedTuple):
    """Grades, from 0 to 4."""

    food: int
    service: int


def likenesses(split: str) -> list[Likeness]:
    """The pairs of "train", "valid" or "test"; none is in two of them."""
    return _splits()[split]


def alike(one: Opinion, other: Opinion) -> float:
    return 4 - (abs(one.food - other.food) + abs(one.service - other.service)) / 2


def held_out(thing: str, word: str) -> bool:
    """Whether training never says this of that."""
    return crc32(f"{thing} {word}".encode()) % ONE_HELD_OUT_IN == 0


@cache
def _splits() -> dict[str, list[Likeness]]:
    return shared_out(islice(_stream(), STREAM), SIZES)


def _stream() -> Iterator[tuple[Likeness, bool]]:
    """Without end and without repetition; and whether the words of a pair are new to training."""
    draw, told = Draw(SEED), set[Likeness]()
    while True:
        one = Opinion(_grade(draw), _grade(draw))
        other = Opinion(*(grade if draw.chance(KEPT) else _grade(draw) for grade in one))
        (text, first), (second, last) = _told(draw, one), _told(draw, other)
        pair = Likeness(text, second, f"{alike(one, other):g}")
        if pair not in told:
            told.add(pair)
            yield pair, any(held_out(*both) for both in first + last)


def _grade(draw: Draw) -> int:
    return draw.pick(range(len(GRADES)))


def _told(draw: Draw, opinion: Opinion) -> tuple[str, list[tuple[str, str]]]:
    """A sentence, and which adjective is said of which thing in it."""
    clauses, said = [], []
    for things, grade in zip((FOOD, SERVICE), opinion):
        negated = grade in OPPOSITE and draw.chance(NEGATED)
        thing, word = draw.pick(things), draw.pick(GRADES[OPPOSITE[grade] if negated else grade])
        clauses.append(f"the {thing} was {'not ' if negated else ''}{word}")
        said.append((thing, word))
    first, second = clauses if draw.chance(0.5) else reversed(clauses)
    return f"{first} {draw.pick(JOINTS)} {second} .", said
