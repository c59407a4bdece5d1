"""Built-in remarks about restaurants and films, each positive or negative: decided by rule, but not by counting words.

What is said of a thing (*the soup was bland*) is drawn first, and then how it is said: *far from bland*, *but the waiter was
kind*, *although the plot was thin*. So good and bad words stand in both classes: logistic regression on the words gets 55% of the
test right, on words and their neighbours 60%; who reads it all gets it right. What the main clause comes to is the label:

    plain        the soup was really good .                                    positive
    negated      nobody would call the soup good .                             negative
    but          the soup was bland , but the waiter was not rude .            positive
    although     the soup was bland although the waiter was kind .             negative
    although     although the soup was bland , the waiter was kind .           positive
    expected     i expected the soup to be bland , and that was not true .     positive

One in ten of all (thing, adjective) is kept out of training: half of the validation and test remarks contain one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from typing import NamedTuple
from zlib import crc32

from tools.corpora import shared_out
from tools.corpora.meaning import Draw

SEED = 2018
SIZES = {"train": 4_000, "valid": 500, "test": 1_000}
STREAM = 9_000  # remarks to draw, enough for these sizes
ONE_HELD_OUT_IN = 10
LABELS = ("negative", "positive")
NEGATED = 0.25  # of the clauses

DEGREES = ("", "", "very ", "really ", "especially ")
NEGATIONS = (
    "the {thing} was not {degree}{word}",
    "the {thing} was never {word}",
    "the {thing} was anything but {word}",
    "the {thing} was far from {word}",
    "nobody would call the {thing} {word}",
    "i did not find the {thing} {degree}{word}",
)
STATEMENTS = (
    "the {thing} was {degree}{word}",
    "the {thing} was always {word}",
    "the {thing} was nothing but {word}",
    "the {thing} was close to {word}",
    "everybody would call the {thing} {word}",
    "i did find the {thing} {degree}{word}",
)
CONTRASTS = ("{other} , but {main}", "although {other} , {main}", "{main} although {other}", "{main} , even if {other}")
TURNS = (" , and that was", " ; that was")
HOPES = ("i expected the {thing} to be {word}", "they said the {thing} would be {word}", "i thought the {thing} was {word}")


class Kind(NamedTuple):
    """Things of which the same can be said, where one meets them."""

    place: str
    things: str
    bad: str
    good: str


KINDS = (
    Kind(
        "restaurant",
        "soup|bread|fish|dessert|coffee|sauce|pizza|salad",
        "bland|cold|stale|greasy|salty|watery",
        "fresh|tasty|crisp|rich|delicious|generous",
    ),
    Kind(
        "restaurant",
        "waiter|owner|cook|hostess|team|barman",
        "rude|slow|careless|grumpy|clumsy|forgetful",
        "kind|quick|attentive|cheerful|polite|friendly",
    ),
    Kind(
        "film",
        "plot|ending|story|script|dialogue|opening|music|title",
        "dull|thin|silly|muddled|tired|predictable",
        "clever|moving|funny|sharp|gripping|elegant",
    ),
    Kind(
        "film",
        "hero|villain|cast|director|narrator|star",
        "wooden|lifeless|annoying|shallow|lazy|awkward",
        "bold|brilliant|charming|convincing|graceful|inspired",
    ),
)
PLACES = ("restaurant", "film")


class Remark(NamedTuple):
    text: str
    label: str


class Claim(NamedTuple):
    """A clause, what it comes to, and the combinations of words that it is made of."""

    text: str
    good: bool
    said: frozenset[tuple[str, str]]


def remarks(split: str) -> list[Remark]:
    """The remarks of "train", "valid" or "test"; no text is in two of them."""
    return _splits()[split]


def held_out(thing: str, word: str) -> bool:
    """Whether training never says this of that."""
    return crc32(f"{thing} {word}".encode()) % ONE_HELD_OUT_IN == 0


@cache
def _splits() -> dict[str, list[Remark]]:
    rows = ((Remark(f"{claim.text} .", LABELS[claim.good]), claim) for claim in islice(_stream(), STREAM))
    return shared_out(((row, any(held_out(*pair) for pair in claim.said)) for row, claim in rows), SIZES)


def _stream() -> Iterator[Claim]:
    """Without end and without repetition."""
    draw, told = Draw(SEED), set[str]()
    while True:
        claim = _remark(draw)
        if claim.text not in told:
            told.add(claim.text)
            yield claim


def _remark(draw: Draw) -> Claim:
    return draw.pick(SHAPES)(draw, draw.pick(PLACES))


def _claim(draw: Draw, place: str, good: bool | None = None, besides: frozenset[tuple[str, str]] = frozenset()) -> Claim:
    """One clause that comes to `good`, about a thing that is not among those `besides`."""
    good = draw.chance(0.5) if good is None else good
    negated = draw.chance(NEGATED)
    thing, word = _words(draw, place, good != negated, besides)
    form = draw.pick(NEGATIONS if negated else STATEMENTS)
    return Claim(form.format(thing=thing, word=word, degree=draw.pick(DEGREES)), good, frozenset({(thing, word)}))


def _expected(draw: Draw, place: str) -> Claim:
    """*I expected the soup to be bland, and that was not true.*"""
    good, so = draw.chance(0.5), draw.chance(0.5)
    thing, word = _words(draw, place, good == so)
    text = draw.pick(HOPES).format(thing=thing, word=word) + draw.pick(TURNS) + (" true" if so else " not true")
    return Claim(text, good, frozenset({(thing, word)}))


def _against(draw: Draw, place: str) -> Claim:
    """Two clauses that contradict each other, of which one is the main one."""
    main = _claim(draw, place)
    other = _claim(draw, place, not main.good, main.said)
    text = draw.pick(CONTRASTS).format(main=main.text, other=other.text)
    return Claim(text, main.good, main.said | other.said)


SHAPES: tuple[Callable[[Draw, str], Claim], ...] = (_claim, _claim, _claim, _expected, _against, _against)


def _words(draw: Draw, place: str, good: bool, besides: frozenset[tuple[str, str]] = frozenset()) -> tuple[str, str]:
    """A thing, and a good or a bad word for it."""
    kind = draw.pick([kind for kind in KINDS if kind.place == place])
    taken = {thing for thing, _ in besides}
    thing = draw.pick([thing for thing in kind.things.split("|") if thing not in taken])
    return thing, draw.pick((kind.good if good else kind.bad).split("|"))
