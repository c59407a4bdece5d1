"""Built-in dispatches, a sentence each, with persons, places, organisations and dates: told apart by what is said of them.

Names are put together from syllables, and a name may be anybody's: *Jordan* is a person, a place or a firm by the rest of its
sentence, which may decide late (*Jordan , where it rained*, *Jordan , who was late*) or long before. June and May are months and
first names, 1987 is a year or a number of boats, and names touch (*the Jordan Marlo train* calls at two places). So the tag that
each word mostly has finds a fifth of the entities; what a word and its two neighbours mostly mean, all names taken alike, four
fifths.

One in four names is kept out of training: half of the validation and test sentences contain one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from typing import NamedTuple
from zlib import crc32

from tools.corpora import shared_out
from tools.corpora.meaning import Draw

SEED = 2003
SIZES = {"train": 3_000, "valid": 400, "test": 800}
STREAM = 9_000  # sentences to draw, enough for these sizes
ONE_HELD_OUT_IN = 4

BEGINNINGS = "Bal|Cor|Dar|El|Fen|Gar|Hal|Is|Jor|Kel|Lan|Mar|Nor|Or|Pel|Quin|Ros|Sel|Tor|Ul|Ver|Wil|Yar|Zan"
MIDDLES = ("", "", "a", "i", "o")
ENDINGS = "dan|den|don|fort|ham|la|lin|lo|mar|mond|na|nia|ra|rick|ro|sa|son|ta|ton|vale|via|ville|wen|wick"
FIRST_NAMES = ("April", "May", "June", "August")  # and months
MONTHS = (*FIRST_NAMES, "January", "March", "July", "October")
DAYS = ("Monday", "Tuesday", "Friday", "Sunday")
INITIALS = ("A.", "B.", "C.", "E.", "J.", "L.", "R.", "T.")

WHO = (
    "who was late",
    "who had been a teacher in [LOC]",
    "the singer",
    "who works for [ORG]",
    "a friend of [PER]",
    "born in [YEAR]",
)
WHERE = (
    "where it had rained since [DAY]",
    "a town of [NUMBER] people",
    "where [PER] was born",
    "the old harbour",
    "north of [LOC]",
    "which lies by the sea",
)
WHAT = (
    "which makes glass",
    "a bank since [YEAR]",
    "which [PER] owns",
    "the club",
    "whose shares fell on [DAY]",
    "which has [NUMBER] workers",
)
UNDECIDED = (  # until it is said who, where or what that is
    "Nobody had heard of {0} , {1} , before [DAY] .",
    "The report names {0} , {1} .",
    "{0} , {1} , is in the news again .",
    "There are many stories about {0} , {1} .",
    "In [MONTH] they wrote to us about {0} , {1} .",
    "It was {0} , {1} , that we liked most .",
)
TOLD = (
    "[PER] moved from [LOC] to [LOC] in [MONTH] .",
    "[PER] said on [DAY] that [ORG] would close .",
    "[ORG] beat [ORG] with 3 : 1 on [DAY] .",
    "[ORG] sold [NUMBER] boats to [LOC] in [MONTH] .",
    "The [LOC] [LOC] train was late on [DAY] .",
    "Tell [PER] [LOC] is far from [LOC] .",
    "They called the town [LOC] and the boat , of [YEAR] , Hope .",
    "The firm , once of [LOC] , changed its name to [ORG] in [YEAR] .",
    "Her brother , a baker , is called [PER] .",
    "In [LOC] , [PER] and [PER] opened a shop .",
    "From [LOC] one can see [LOC] on a clear day .",
    "Shares of [ORG] and [ORG] fell on [DAY] .",
    "On [DAY] Dr [PER] left [ORG] for [ORG] .",
    "Mayor [PER] thanked [NUMBER] people in [LOC] .",
    "[PER] of [LOC] met [PER] of [ORG] .",
    "The Winter Report of [MONTH] praises [ORG] .",
    "[LOC] and [LOC] , two small towns , had no road until [YEAR] .",
    "[PER] and [PER] , two sisters , had no work until [YEAR] .",
    "[ORG] and [ORG] , two small firms , had no debts until [YEAR] .",
    "Snow fell in [LOC] on [DAY] , said [PER] .",
    "Ask [PER] or [PER] .",
    "The roads to [LOC] are closed , [ORG] said .",
    "[NUMBER] people saw [PER] sing in [LOC] .",
    "May [PER] live long in [LOC] !",
)
DECIDED = {"PER": WHO, "LOC": WHERE, "ORG": WHAT}
TYPE_OF = {"MONTH": "DATE", "DAY": "DATE", "YEAR": "DATE", "NUMBER": ""}  # of slots that are not called like theirs
SLOT = re.compile(r"\[([A-Z]+)\]")
NAME = re.compile(f"({BEGINNINGS})({'|'.join(MIDDLES)})({ENDINGS})")


class Dispatch(NamedTuple):
    words: tuple[str, ...]
    tags: tuple[str, ...]  # in the scheme iob2


def dispatches(split: str) -> list[Dispatch]:
    """The sentences of "train", "valid" or "test"; none is in two of them."""
    return _splits()[split]


def held_out(word: str) -> bool:
    """Whether it is a name that training never has."""
    return _is_name(word) and crc32(word.encode()) % ONE_HELD_OUT_IN == 0


def _is_name(word: str) -> bool:
    return NAME.fullmatch(word) is not None


@cache
def _splits() -> dict[str, list[Dispatch]]:
    return shared_out(((found, any(map(held_out, found.words))) for found in islice(_stream(), STREAM)), SIZES)


def _stream() -> Iterator[Dispatch]:
    """Without end and without repetition."""
    draw, told = Draw(SEED), set[tuple[str, ...]]()
    while True:
        found = _filled(draw, _form(draw))
        if found.words not in told:
            told.add(found.words)
            yield found


def _form(draw: Draw) -> str:
    if draw.chance(0.5):
        return draw.pick(TOLD)
    type_ = draw.pick(tuple(DECIDED))
    return draw.pick(UNDECIDED).format(f"[{type_}]", draw.pick(DECIDED[type_]))


def _filled(draw: Draw, form: str) -> Dispatch:
    words, tags = list[str](), list[str]()
    for token in form.split():
        slot = SLOT.fullmatch(token)
        chosen = SAID[slot[1]](draw).split() if slot else [token]
        type_ = TYPE_OF.get(slot[1], slot[1]) if slot else ""
        words += chosen
        tags += [f"{'I' if n else 'B'}-{type_}" if type_ else "O" for n in range(len(chosen))]
    return Dispatch(tuple(words), tuple(tags))


def _name(draw: Draw) -> str:
    return draw.pick(BEGINNINGS.split("|")) + draw.pick(MIDDLES) + draw.pick(ENDINGS.split("|"))


def _person(draw: Draw) -> str:
    first = draw.pick(FIRST_NAMES) if draw.chance(0.3) else _name(draw)
    return draw.pick((_name(draw), f"{first} {_name(draw)}", f"{first} {draw.pick(INITIALS)} {_name(draw)}"))


def _place(draw: Draw) -> str:
    name = _name(draw)
    return draw.pick((name, name, name, f"New {name}", f"{name} Bay"))


def _organisation(draw: Draw) -> str:
    name = _name(draw)
    return draw.pick((name, name, name, f"{name} & {_name(draw)}", f"Bank of {name}", f"New {name} Press"))


def _month(draw: Draw) -> str:
    month = draw.pick(MONTHS)
    return draw.pick((month, f"{month} {_year(draw)}"))


def _day(draw: Draw) -> str:
    date = f"{1 + draw.pick(range(28))} {draw.pick(MONTHS)}"
    return draw.pick((draw.pick(DAYS), date, f"{date} {_year(draw)}"))


def _year(draw: Draw) -> str:
    return str(1900 + draw.pick(range(100)))


SAID: dict[str, Callable[[Draw], str]] = {
    "PER": _person,
    "LOC": _place,
    "ORG": _organisation,
    "MONTH": _month,
    "DAY": _day,
    "YEAR": _year,
    "NUMBER": _year,
}
