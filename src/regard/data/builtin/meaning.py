"""What a sentence means, before it is said in any language: who, does or is what, when, and why.

`english.py` and `french.py` each say a `Sentence` in their own way; `compose.py` draws one at random.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from regard.data.builtin.lexicon import Adjective, Gender, Noun, Preposition, Report, Verb

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
