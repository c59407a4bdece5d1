"""Built-in little stories, each with questions whose answers are a few words of it: found by who did what, not by their kind.

Two or three persons each do something somewhere at some time, and one of these deeds is asked about. The others hold answers of
the same kind, so who picks any place, time, thing or name that could be meant is right in two of five cases:

    Anna bought a green lamp at the harbour on Monday. On Friday, Peter sold a green clock in the village. There he met Olga.

    where     Where was Peter?                             the village
    when      When was the green lamp bought?              Monday
    what      What did Peter sell?                         a green clock
    who       Who bought something at the harbour?         Anna
    whom      Whom did Peter meet?                         Olga, by way of "he"
    either    Who sold the green clock, Anna or Peter?     Peter

One in ten of all (adjective, thing) is kept out of training: half of the validation and test questions are about one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple
from zlib import crc32

from tools.corpora.meaning import Draw, T

SEED = 2016
SIZES = {"train": 9_000, "valid": 400, "test": 800}  # questions
QUESTIONS_EACH = 3  # about a story, to train with; else one
STREAM = 7_000  # stories to draw, enough for these sizes
DEEDS = (2, 3, 3)  # of a story
ONE_HELD_OUT_IN = 10
MEETS = 0.3  # of the deeds: it is told whom the person met there
CHOOSES = 0.3  # of the questions: two answers are named

WOMEN = ("Anna", "Clara", "Emma", "Maria", "Nora", "Olga", "Rosa")
MEN = ("Adam", "David", "Felix", "Karl", "Oscar", "Peter", "Tom")
ADJECTIVES = ("black", "blue", "green", "little", "new", "old", "red", "white")
THINGS = ("basket", "boat", "book", "chair", "clock", "coat", "guitar", "lamp", "map", "mirror")
PLACES = (
    *("at the harbour", "at the school", "at the station", "behind the church", "by the river"),
    *("in the forest", "in the old town", "in the village", "near the bridge", "on the island"),
)
TIMES = (
    *("on Monday", "on Wednesday", "on Friday", "on Sunday", "in March", "in October"),
    *("at noon", "at midnight", "in the evening", "in the morning"),
)
VERBS = (  # past, base, participle
    *(("bought", "buy", "bought"), ("sold", "sell", "sold"), ("found", "find", "found"), ("lost", "lose", "lost")),
    *(("painted", "paint", "painted"), ("hid", "hide", "hidden"), ("broke", "break", "broken"), ("drew", "draw", "drawn")),
)
TELLINGS = (
    "{who} {past} {what} {where} {when}.",
    "{When}, {who} {past} {what} {where}.",
    "{What} was {participle} by {who} {where} {when}.",
    "{When}, {what} was {participle} {where} by {who}.",
)
MEETINGS = ("There {he} met {whom}.", "{He} met {whom} there.")
QUESTIONS = {
    "where": ("Where was {who}?", "Where was the {thing} {participle}?", "Where did {who} {base} the {thing}?"),
    "when": ("When was {who} {where}?", "When was the {thing} {participle}?", "When did {who} {base} the {thing}?"),
    "what": ("What did {who} {base}?", "What did {who} {base} {where}?", "Which {noun} did {who} {base}?"),
    "who": ("Who {past} the {thing}?", "Who {past} something {where}?", "Who {past} the {thing} {where}?"),
    "whom": ("Whom did {who} meet?", "Whom did {who} meet {where}?"),
}
CHOICES = {  # between the answer and a rival
    "where": "Was {who} {one} or {other}?",
    "when": "Did {who} {base} the {thing} {one} or {other}?",
    "what": "Did {who} {base} {one} or {other}?",
    "who": "Who {past} the {thing}, {one} or {other}?",
}


class Story(NamedTuple):
    """With one question about it."""

    context: str
    question: str
    answer: str
    start: int  # of the answer in the context
    rivals: tuple[str, ...]  # what else in the story could be meant, by its kind


class Deed(NamedTuple):
    who: str
    verb: tuple[str, ...]
    thing: str  # its adjective and its noun
    where: str
    when: str
    whom: str | None  # is met there

    def words(self) -> dict[str, str]:
        past, base, participle = self.verb
        article = "an" if self.thing[0] in "aeiou" else "a"
        told = {"who": self.who, "what": f"{article} {self.thing}", "where": self.where, "when": self.when}
        told |= {
            "thing": self.thing,
            "noun": self.thing.partition(" ")[2],
            "past": past,
            "base": base,
            "participle": participle,
            "whom": self.whom or "",
        }
        told |= {"he": "she" if self.who in WOMEN else "he"}
        return told | {word.capitalize(): told[word][0].upper() + told[word][1:] for word in ("what", "when", "he")}

    def answer(self, kind: str) -> str:
        """A place or a time without its preposition."""
        words = self.words()[kind]
        return words.partition(" ")[2] if kind in ("where", "when") else words


def stories(split: str) -> list[Story]:
    """The questions of "train", "valid" or "test"; no story is in two of them."""
    return _splits()[split]


def held_out(thing: str) -> bool:
    """Whether no story of training has it."""
    return crc32(thing.encode()) % ONE_HELD_OUT_IN == 0


@cache
def _splits() -> dict[str, list[Story]]:
    draw, familiar, fresh = Draw(SEED), list[list[Story]](), list[list[Story]]()
    for _ in range(STREAM):
        deeds = _deeds(draw, draw.pick(DEEDS))
        asked = _asked(draw, deeds)
        if held_out(deeds[0].thing):
            fresh.append(asked)
        elif not any(held_out(deed.thing) for deed in deeds):
            familiar.append(asked)
    stories = SIZES["train"] // QUESTIONS_EACH
    train = [question for asked in familiar[:stories] for question in asked]
    first = [asked[0] for both in zip(fresh, familiar[stories:]) for asked in both]
    test, valid = first[: SIZES["test"]], first[SIZES["test"] : SIZES["test"] + SIZES["valid"]]
    return {"train": train, "valid": valid, "test": test}


def _asked(draw: Draw, deeds: list[Deed]) -> list[Story]:
    """Questions about a story that tells these deeds in any order, the first about the first."""
    told = {deed: _told(draw, deed) for deed in _some(draw, deeds, len(deeds))}
    context = " ".join(told.values())
    return [_question(draw, deeds, deeds[n % len(deeds)], context, told) for n in range(QUESTIONS_EACH)]


def _question(draw: Draw, deeds: list[Deed], asked: Deed, context: str, told: dict[Deed, str]) -> Story:
    kind = draw.pick([kind for kind in QUESTIONS if kind != "whom" or asked.whom])
    answer = asked.answer(kind)
    if answer not in told[asked]:
        answer = answer.capitalize()  # it is the first word
    start = context.index(told[asked]) + told[asked].index(answer)
    names = {name for deed in deeds for name in (deed.who, deed.whom) if name} - ({asked.who} if kind == "whom" else set())
    alike = names if kind in ("who", "whom") else {deed.answer(kind) for deed in deeds}
    rivals = tuple(sorted(alike - {asked.answer(kind)}))
    if kind in CHOICES and draw.chance(CHOOSES):
        other = draw.pick([deed for deed in deeds if deed is not asked])
        one, two = _some(draw, [asked.words()[kind], other.words()[kind]], 2)
        question = CHOICES[kind].format(**asked.words(), one=one, other=two)
        return Story(context, question, answer, start, (other.answer(kind),))
    return Story(context, draw.pick(QUESTIONS[kind]).format(**asked.words()), answer, start, rivals)


def _deeds(draw: Draw, number: int) -> list[Deed]:
    """No two have a person, a thing, a place or a time in common; but adjectives, nouns and verbs they may."""
    names = _some(draw, WOMEN + MEN, 2 * number)
    things = _some(
        draw, [f"{adjective} {noun}" for adjective in _some(draw, ADJECTIVES, 2) for noun in _some(draw, THINGS, 4)], number
    )
    places, times = _some(draw, PLACES, number), _some(draw, TIMES, number)
    return [
        Deed(names[n], draw.pick(VERBS), things[n], places[n], times[n], names[number + n] if draw.chance(MEETS) else None)
        for n in range(number)
    ]


def _told(draw: Draw, deed: Deed) -> str:
    sentences = [draw.pick(TELLINGS), *([draw.pick(MEETINGS)] if deed.whom else [])]
    return " ".join(sentences).format(**deed.words())


def _some(draw: Draw, items: Sequence[T], number: int) -> list[T]:
    """So many different ones, in any order."""
    left = list(items)
    return [left.pop(left.index(draw.pick(left))) for _ in range(number)]
