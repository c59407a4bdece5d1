"""Built-in reviews of a few sentences each: what was visited, and was it good? Decided by rule, and by one sentence alone.

A review of a restaurant, a film or a zoo says in one sentence, anywhere, what its writer thought of it: *The zebra was not
sleepy.* The others are asides, and mislead: what the way there was like, in the same good and bad words (*The bus was awful.*),
and things of other places, of which nothing is thought (*There was a picture of the zebra on the wall.*). So no word tells the
label by itself, which is one of six, such as "good zoo"; who finds the sentence that counts gets all right, a bag of words half.
One in ten of all (thing, opinion) is kept out of training: half of the validation and test reviews have one.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import NamedTuple
from zlib import crc32

from tools.corpora import shared_out
from tools.corpora.meaning import Draw

SEED = 2016
SIZES = {"train": 3_000, "valid": 400, "test": 800}
STREAM = 7_000  # reviews to draw, enough for these sizes
ONE_HELD_OUT_IN = 10
NEGATED = 0.25  # of the verdicts

GOOD, BAD = ("great", "lovely", "wonderful", "splendid", "fine"), ("terrible", "awful", "dreadful", "poor", "hopeless")
STATEMENTS = (
    "The {thing} was {word}.",
    "I found the {thing} really {word}!",
    "What we will remember is the {word} {thing}.",
    "Everybody said the {thing} was {word}, and so it was.",
)
NEGATIONS = (
    "The {thing} was not {word}.",
    "The {thing} was anything but {word}!",
    "Nobody at our table would call the {thing} {word}.",
    "Everybody said the {thing} was {word}, but it was not.",
)
ON_THE_WAY = ("bus", "train", "weather", "parking", "taxi", "motorway", "queue", "ticket machine")
WAYS = ("The {thing} was {word}.", "The {thing} on the way was {word}...", "My cousin thought the {thing} was {word}.")
MENTIONS = (
    "There was a picture of the {thing} on the wall.",
    "Mrs. Hill talked about the {thing} again.",
    'My uncle asked, "Have you seen the {thing}?" and left.',
    "Last year it was the {thing} that we talked about.",
)
PLAIN = (
    "We went there on a Monday.",
    "Dr. Lee had told us about it.",
    "It opens at 5 p.m. on most days.",
    "My sister came too, with Mr. Brown.",
    "We had booked weeks before.",
    "It is not far from the station.",
)


class Kind(NamedTuple):
    """A place, what there is to have an opinion of, and opinions that fit it alone."""

    place: str
    things: tuple[str, ...]
    bad: tuple[str, ...]
    good: tuple[str, ...]


def _kind(place: str, things: str, bad: str, good: str) -> Kind:
    return Kind(place, *(tuple(words.split()) for words in (things, bad, good)))


KINDS = (
    _kind(
        "restaurant", "soup fish dessert coffee pizza salad sauce bread", "bland stale greasy cold", "delicious tasty fresh crisp"
    ),
    _kind(
        "film", "plot ending script cast dialogue music hero director", "dull silly wooden tired", "clever moving gripping funny"
    ),
    _kind(
        "zoo",
        "zebra lion monkey penguin giraffe tiger elephant camel",
        "sleepy ragged grumpy sick",
        "playful curious tame lively",
    ),
)


class Review(NamedTuple):
    text: str
    label: str


def reviews(split: str) -> list[Review]:
    """The reviews of "train", "valid" or "test"; no text is in two of them."""
    return _splits()[split]


def held_out(thing: str, word: str) -> bool:
    """Whether training never says this of that."""
    return crc32(f"{thing} {word}".encode()) % ONE_HELD_OUT_IN == 0


@cache
def _splits() -> dict[str, list[Review]]:
    return shared_out(islice(_stream(), STREAM), SIZES)


def _stream() -> Iterator[tuple[Review, bool]]:
    """Without end and without repetition; and of each whether it is new to training."""
    draw, told = Draw(SEED), set[str]()
    while True:
        review, new = _review(draw)
        if review.text not in told:
            told.add(review.text)
            yield review, new


def _review(draw: Draw) -> tuple[Review, bool]:
    kind, good, negated = draw.pick(KINDS), draw.chance(0.5), draw.chance(NEGATED)
    thing, word = draw.pick(kind.things), _opinion(draw, kind, good != negated)
    verdict = draw.pick(NEGATIONS if negated else STATEMENTS).format(thing=thing, word=word)
    others = [other for other in KINDS if other is not kind]
    told = [_aside(draw, others) for _ in range(draw.pick((2, 3, 4, 5)))]
    place = draw.pick(range(len(told) + 1))
    text = " ".join([*told[:place], verdict, *told[place:]])
    return Review(text, f"{'good' if good else 'bad'} {kind.place}"), held_out(thing, word)


def _opinion(draw: Draw, kind: Kind, good: bool) -> str:
    general, own = (GOOD, kind.good) if good else (BAD, kind.bad)
    return draw.pick(own if draw.chance(0.5) else general)


def _aside(draw: Draw, others: list[Kind]) -> str:
    if draw.chance(0.4):
        return draw.pick(WAYS).format(thing=draw.pick(ON_THE_WAY), word=draw.pick(GOOD + BAD))
    if draw.chance(0.6):
        return draw.pick(MENTIONS).format(thing=draw.pick(draw.pick(others).things))
    return draw.pick(PLAIN)
