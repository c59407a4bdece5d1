"""What a sentence means, before it is said in any language: who, does or is what, when, and why.

`english.py` and `french.py` each say a `Sentence` in their own way; `compose.py` draws one at random.

Meanings drawn at random from the lexicon: the mixture of sentence shapes that makes up the corpus.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from tools.corpora.lexicon import Adjective, Frame, Gender, Lexicon, Noun, Preposition, Report, Verb

Tense = Literal["past", "present", "future"]
Degree = Literal["too", "very"]
Person = Literal[0, 1, 2, 3]  # i, she or it, we, they: the columns of every French verb table


@dataclass(frozen=True, eq=False)
class Phrase:
    """A noun with what surrounds it: *the old cat*, *trees*, *the king's red box*."""

    noun: Noun
    plural: bool = False
    definite: bool = True
    adjective: Adjective | None = None
    owner: Phrase | None = None

    @property
    def person(self) -> Person:
        return 3 if self.plural else 1

    @property
    def gender(self) -> Gender:
        return self.noun.gender


@dataclass(frozen=True)
class Pronoun:
    en: str
    fr: str
    person: Person
    gender: Gender  # where English does not tell, French takes the masculine: "they" are ils, "i" am fatigué

    @property
    def plural(self) -> bool:
        return self.person >= 2


PRONOUNS = (
    Pronoun("i", "je", 0, "m"),
    Pronoun("he", "il", 1, "m"),
    Pronoun("she", "elle", 1, "f"),
    Pronoun("we", "nous", 2, "m"),
    Pronoun("they", "ils", 3, "m"),
)

Subject = Phrase | Pronoun


def refer(phrase: Phrase) -> Pronoun:
    """The pronoun that stands for a phrase: English asks whether it is a person, French asks for its gender."""
    feminine = phrase.gender == "f"
    if phrase.plural:
        return Pronoun("they", "elles" if feminine else "ils", 3, phrase.gender)
    person = "person" in phrase.noun.kinds
    english = ("she" if feminine else "he") if person else "it"
    return Pronoun(english, "elle" if feminine else "il", 1, phrase.gender)


@dataclass(frozen=True, eq=False)
class Action:
    verb: Verb
    object: Phrase | None = None
    recipient: Phrase | None = None
    place: tuple[Preposition, Phrase] | None = None


@dataclass(frozen=True, eq=False)
class State:
    adjective: Adjective
    degree: Degree | None = None


@dataclass(frozen=True, eq=False)
class Clause:
    subject: Subject
    predicate: Action | State
    tense: Tense
    negated: bool = False
    contracted: bool = False  # "didn't" for "did not": heard in English only


@dataclass(frozen=True, eq=False)
class Reason:
    """*because it was too tired*: a state of the agent or of the thing, told by the adjective alone."""

    referent: Phrase
    state: State


@dataclass(frozen=True, eq=False)
class Sentence:
    clause: Clause
    reason: Reason | None = None
    report: tuple[Subject, Report] | None = None  # *she thinks that* clause

    def because(self) -> Clause | None:
        """The reason as a clause with a pronoun; a future is explained by the present."""
        if self.reason is None:
            return None
        tense: Tense = "past" if self.clause.tense == "past" else "present"
        return Clause(refer(self.reason.referent), self.reason.state, tense)

    def combinations(self) -> Iterator[tuple[str, str]]:
        """(subject, object) and (noun, adjective), by their English names: what a split can hold out."""
        subject, predicate = self.clause.subject, self.clause.predicate
        phrases = [subject]
        if isinstance(predicate, Action):
            phrases += [phrase for phrase in (predicate.object, predicate.recipient) if phrase]
            if predicate.object and isinstance(subject, Phrase):
                yield subject.noun.name, predicate.object.noun.name
        elif isinstance(subject, Phrase):
            yield subject.noun.name, predicate.adjective.en
        for phrase in phrases:
            if isinstance(phrase, Phrase) and phrase.adjective:
                yield phrase.noun.name, phrase.adjective.en
        if self.reason:
            yield self.reason.referent.noun.name, self.reason.state.adjective.en


T = TypeVar("T")

PERSON, ANIMAL = frozenset({"person"}), frozenset({"animal"})
AGENTS = PERSON | ANIMAL
THINGS = frozenset({"way", "opening", "load", "food", "place", "gift"})
ME, HE, SHE, WE, THEY = PRONOUNS
SPEAKERS = (ME, HE, SHE, WE, THEY, ME, WE)  # no noun shares the verb forms of "i" and "we": they need saying more often
TENSES: tuple[Tense, ...] = ("past", "past", "present", "future")


class Draw:
    """Seeded choices, the same on every machine: of Python's generator only `random()` is promised never to change."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed).random

    def chance(self, probability: float) -> bool:
        return self._random() < probability

    def pick(self, items: Sequence[T]) -> T:
        return items[int(self._random() * len(items))]


def compose(draw: Draw, words: Lexicon) -> Sentence:
    """One sentence; about a quarter of all ask what *it* refers to."""
    if draw.chance(0.36):
        return _explained(draw, words)
    clause = draw.pick(SHAPES)(draw, words)
    if draw.chance(0.15):
        speaker = draw.pick(SPEAKERS) if draw.chance(0.5) else _plain(draw, words, PERSON)
        return Sentence(clause, report=(speaker, draw.pick(words.reports)))
    return Sentence(clause)


def _explained(draw: Draw, words: Lexicon) -> Sentence:
    """*The animal did not cross the street because it was too tired*, or *too wide*.

    Agent and thing mostly differ in gender, so that a pronoun that looks at the wrong one is wrong.
    """
    frame = draw.pick(words.frames)
    verb = draw.pick(frame.verbs)
    plural, negated = draw.chance(0.15), draw.chance(0.75)
    gender: Gender = draw.pick(("m", "f"))
    other: Gender = "f" if gender == "m" else "m"
    agents = words.nouns_of(PERSON if draw.chance(0.15) else ANIMAL, gender)
    things = words.nouns_of(verb.objects, other if draw.chance(0.75) else gender)
    agent = _decorated(draw, words, draw.pick(agents), plural, frame)
    thing = _decorated(draw, words, draw.pick(things), plural, frame)
    clause = Clause(agent, Action(verb, thing), draw.pick(TENSES), negated, draw.chance(0.4))
    if draw.chance(0.5):
        referent, adjectives = agent, frame.agent_stops if negated else frame.agent_helps
    else:
        referent, adjectives = thing, frame.thing_stops if negated else frame.thing_helps
    return Sentence(clause, Reason(referent, State(draw.pick(adjectives), "too" if negated else None)))


def _decorated(draw: Draw, words: Lexicon, noun: Noun, plural: bool, frame: Frame) -> Phrase:
    """Now and then an adjective, but none that is a reason in this frame: no *light bag* that is *too heavy*."""
    if not draw.chance(0.15):
        return Phrase(noun, plural)
    reasons = frame.agent_stops + frame.thing_stops + frame.agent_helps + frame.thing_helps
    return Phrase(noun, plural, adjective=draw.pick([a for a in words.adjectives_of(noun.kinds) if a not in reasons]))


def _acting(draw: Draw, words: Lexicon) -> Clause:
    """*She did not buy the king's red box*."""
    verb = draw.pick([verb for verb in words.verbs.values() if verb.pattern == "object"])
    negated = draw.chance(0.4)
    subject = _subject(draw, words, verb.subjects, negated)
    thing = _object(draw, words, _another(draw, words.nouns_of(verb.objects), subject))
    return _clause(draw, subject, Action(verb, thing), negated)


def _giving(draw: Draw, words: Lexicon) -> Clause:
    """*He gives flowers to the queen*, *he talks to the queen*."""
    verb = draw.pick([verb for verb in words.verbs.values() if verb.pattern in ("gift", "address")])
    negated = draw.chance(0.4)
    gift = _object(draw, words, draw.pick(words.nouns_of(verb.objects))) if verb.objects else None
    subject = _subject(draw, words, verb.subjects, negated)
    recipient = _described(draw, words, _another(draw, words.nouns_of(AGENTS), subject), 0.2)
    return _clause(draw, subject, Action(verb, gift, recipient), negated)


def _being_somewhere(draw: Draw, words: Lexicon) -> Clause:
    """*The dogs slept near the bridge*."""
    verb = draw.pick([verb for verb in words.verbs.values() if verb.pattern == "place"])
    preposition = draw.pick(words.prepositions)
    place = preposition, _plain(draw, words, preposition.objects)
    negated = draw.chance(0.3)
    return _clause(draw, _subject(draw, words, verb.subjects, negated), Action(verb, place=place), negated)


def _describing(draw: Draw, words: Lexicon) -> Clause:
    """*The soup is very hot*."""
    subject: Subject = draw.pick(SPEAKERS)
    kinds = PERSON
    if draw.chance(0.75):
        subject = _plain(draw, words, draw.pick((AGENTS, THINGS)))
        kinds = subject.noun.kinds
    adjective = draw.pick([adjective for adjective in words.adjectives_of(kinds) if adjective.predicate])
    return _clause(draw, subject, State(adjective, "very" if draw.chance(0.3) else None), draw.chance(0.3))


SHAPES: tuple[Callable[[Draw, Lexicon], Clause], ...] = (
    *(_acting, _acting, _acting, _acting),
    *(_giving, _giving),
    *(_being_somewhere, _being_somewhere),
    *(_describing, _describing),
)


def _clause(draw: Draw, subject: Subject, predicate: Action | State, negated: bool) -> Clause:
    return Clause(subject, predicate, draw.pick(TENSES), negated, draw.chance(0.4))


def _subject(draw: Draw, words: Lexicon, kinds: frozenset[str], negated: bool) -> Subject:
    if draw.chance(0.4):
        return draw.pick(SPEAKERS)
    definite = negated or draw.chance(0.8)  # "a cat did not sleep" says two things: leave it unsaid
    return _described(draw, words, draw.pick(words.nouns_of(kinds)), 0.25, definite)


def _plain(draw: Draw, words: Lexicon, kinds: frozenset[str]) -> Phrase:
    return Phrase(draw.pick(words.nouns_of(kinds)), draw.chance(0.3))


def _another(draw: Draw, nouns: Sequence[Noun], subject: Subject) -> Noun:
    """Any noun but the subject's: the queen does not talk to the queen."""
    return draw.pick([noun for noun in nouns if not isinstance(subject, Phrase) or noun is not subject.noun])


def _described(draw: Draw, words: Lexicon, noun: Noun, share: float, definite: bool = True) -> Phrase:
    adjective = draw.pick(words.adjectives_of(noun.kinds)) if draw.chance(share) else None
    return Phrase(noun, draw.chance(0.3), definite, adjective)


def _object(draw: Draw, words: Lexicon, noun: Noun) -> Phrase:
    phrase = _described(draw, words, noun, 0.4, definite=draw.chance(0.6))
    if phrase.definite and "person" not in noun.kinds and draw.chance(0.25):
        return replace(phrase, owner=Phrase(draw.pick(words.nouns_of(PERSON))))
    return phrase
