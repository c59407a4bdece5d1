"""The words of the English-French corpus, read once from `lexicon.toml` into small typed values."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

Gender = Literal["m", "f"]
Pattern = Literal["object", "place", "gift", "address"]


@dataclass(frozen=True, eq=False)
class Noun:
    en: tuple[str, str]  # singular, plural
    fr: tuple[str, str]
    gender: Gender
    kinds: frozenset[str]
    aspirated: bool  # an h that allows no elision

    @property
    def name(self) -> str:
        return self.en[0]


@dataclass(frozen=True, eq=False)
class Adjective:
    en: str
    fr: tuple[str, str, str, str]  # masculine, feminine, masculine plural, feminine plural
    vowel: str  # masculine singular before a vowel: bel, vieil, nouvel
    before: bool  # stands before its noun
    predicate: bool  # can also follow "to be"
    fits: frozenset[str]

    def agree(self, gender: Gender, plural: bool) -> str:
        return self.fr[2 * plural + (gender == "f")]


@dataclass(frozen=True, eq=False)
class Verb:
    en: tuple[str, str, str]  # base, third person, past
    present: tuple[str, ...]  # je, il, nous, ils
    future: tuple[str, ...]
    participle: str
    pattern: Pattern
    subjects: frozenset[str]
    objects: frozenset[str]


@dataclass(frozen=True, eq=False)
class Report:
    en: tuple[str, str]  # base, third person
    present: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Preposition:
    en: str
    fr: tuple[str, ...]
    objects: frozenset[str]


@dataclass(frozen=True, eq=False)
class Frame:
    """Who does what to what, and the adjectives of agent and thing that say why it was, or was not, done."""

    verbs: tuple[Verb, ...]
    agent_stops: tuple[Adjective, ...]
    thing_stops: tuple[Adjective, ...]
    agent_helps: tuple[Adjective, ...]
    thing_helps: tuple[Adjective, ...]


@dataclass(frozen=True, eq=False)
class Lexicon:
    nouns: dict[str, Noun]  # by English singular
    adjectives: dict[str, Adjective]
    verbs: dict[str, Verb]  # by English base form
    reports: tuple[Report, ...]
    prepositions: tuple[Preposition, ...]
    frames: tuple[Frame, ...]

    def nouns_of(self, kinds: frozenset[str], gender: Gender | None = None) -> tuple[Noun, ...]:
        return _select(self, kinds, gender)

    def adjectives_of(self, kinds: frozenset[str]) -> tuple[Adjective, ...]:
        return _fitting(self, kinds)


@cache
def _select(lexicon: Lexicon, kinds: frozenset[str], gender: Gender | None) -> tuple[Noun, ...]:
    return tuple(n for n in lexicon.nouns.values() if n.kinds & kinds and gender in (None, n.gender))


@cache
def _fitting(lexicon: Lexicon, kinds: frozenset[str]) -> tuple[Adjective, ...]:
    return tuple(a for a in lexicon.adjectives.values() if a.fits & kinds)


def _noun(row: dict[str, Any]) -> Noun:
    en, fr = row["en"], row["fr"]
    return Noun((en[0], en[1]), (fr[0], fr[1]), row["gender"], frozenset(row["kinds"]), row.get("aspirated", False))


def _adjective(row: dict[str, Any]) -> Adjective:
    masculine, feminine, masculines, feminines = row["fr"]
    return Adjective(
        en=row["en"],
        fr=(masculine, feminine, masculines, feminines),
        vowel=row.get("vowel", masculine),
        before=row.get("before", False),
        predicate=row.get("predicate", True),
        fits=frozenset(row["fits"]),
    )


def _verb(row: dict[str, Any]) -> Verb:
    base, third, past = row["en"]
    return Verb(
        en=(base, third, past),
        present=tuple(row["present"]),
        future=tuple(row["future"]),
        participle=row["participle"],
        pattern=row["pattern"],
        subjects=frozenset(row["subjects"]),
        objects=frozenset(row.get("objects", ())),
    )


def _frame(row: dict[str, Any], verbs: dict[str, Verb], adjectives: dict[str, Adjective]) -> Frame:
    def named(names: Iterable[str]) -> tuple[Adjective, ...]:
        return tuple(adjectives[name] for name in names)

    return Frame(
        verbs=tuple(verbs[name] for name in row["verbs"]),
        agent_stops=named(row["agent_stops"]),
        thing_stops=named(row["thing_stops"]),
        agent_helps=named(row["agent_helps"]),
        thing_helps=named(row["thing_helps"]),
    )


@cache
def lexicon() -> Lexicon:
    """The whole lexicon; always the same object, so that words can be compared by identity."""
    rows = tomllib.loads((files(__package__) / "lexicon.toml").read_text(encoding="utf-8"))
    nouns = [_noun(row) for row in rows["nouns"]]
    adjectives = {row["en"]: _adjective(row) for row in rows["adjectives"]}
    verbs = {row["en"][0]: _verb(row) for row in rows["verbs"]}
    return Lexicon(
        nouns={noun.name: noun for noun in nouns},
        adjectives=adjectives,
        verbs=verbs,
        reports=tuple(Report((r["en"][0], r["en"][1]), tuple(r["present"])) for r in rows["reports"]),
        prepositions=tuple(Preposition(r["en"], tuple(r["fr"]), frozenset(r["objects"])) for r in rows["prepositions"]),
        frames=tuple(_frame(row, verbs, adjectives) for row in rows["frames"]),
    )
