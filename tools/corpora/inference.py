"""Built-in pairs of statements: does the second follow from the first, contradict it, or neither? Decided by logic.

Both say of how many of some beings something is true. Whether one follows depends on what is wider in the first and what in the
second, and which way round that counts depends on the quantifiers, so the label is in neither sentence alone, nor in how many
words they share: logistic regression on the words of both gets 51% of the test right, less than always saying neutral (52%).
Handed every pair of a word here and a word there, so that it need not find out what to compare, it gets 89%.

    no animal sings .                every old goat sings .              contradiction
    no animal sings .                not a single old goat sings .       entailment
    no old goat sings .              no animal sings .                   neutral
    every old goat sings alone .     at least one animal sings .         entailment
    some goat does not sing .        every animal sings .                contradiction

As in everyday speech, who says something of every goat means that there are some. One in ten of all (noun, verb) is kept out of
training: half of the validation and test pairs contain one.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import islice, product
from typing import Literal, NamedTuple
from zlib import crc32

from tools.corpora import shared_out
from tools.corpora.meaning import Draw

SEED = 2015
SIZES = {"train": 10_000, "valid": 500, "test": 1_000}
STREAM = 20_000  # pairs to draw, enough for these sizes
ONE_HELD_OUT_IN = 10
LABELS = ("contradiction", "entailment", "neutral")

KINDS = {
    "animal": "dog|cat|horse|goat",
    "worker": "nurse|baker|farmer|sailor",
    "relative": "aunt|uncle|cousin|nephew",
}
ADJECTIVES = ("old", "tall", "quiet")
VERBS = ("sings", "dances", "sleeps", "waits", "swims", "laughs", "eats", "runs")
MANNERS = ("alone", "outside", "daily")

Quantifier = Literal["every", "some", "no", "not every"]
Relation = Literal["same", "narrower", "wider", "other"]
QUANTIFIERS: tuple[Quantifier, ...] = ("every", "some", "no", "not every")
DENIAL: dict[Quantifier, Quantifier] = {"every": "not every", "not every": "every", "some": "no", "no": "some"}
SAID: dict[Quantifier, tuple[str, ...]] = {
    "every": ("every {who} {does}", "each {who} {does}"),
    "some": ("some {who} {does}", "at least one {who} {does}"),
    "no": ("no {who} {does}", "not a single {who} {does}"),
    "not every": ("not every {who} {does}", "some {who} does not {do}"),
}
CONTAINED: tuple[Relation, ...] = ("same", "narrower", "wider")
RELATED = tuple(product((*CONTAINED, *CONTAINED, "other"), CONTAINED))  # subjects, and predicates


class Inference(NamedTuple):
    text: str
    second: str
    label: str


class Term(NamedTuple):
    """Those that are all of these: a wider term asks for less."""

    parts: frozenset[str]
    words: str


def _term(words: str, *implied: str) -> Term:
    """Of words that each narrow it; their roles, for they are drawn later."""
    return Term(frozenset([*words.split(), *implied]), words)


SUBJECTS = (
    *(_term("kind"), _term("noun", "kind"), _term("another", "kind")),
    *(_term("adjective kind"), _term("adjective noun", "kind"), _term("unlike noun", "kind")),
)
PREDICATES = (_term("verb"), _term("verb manner"))


def inferences(split: str) -> list[Inference]:
    """The pairs of "train", "valid" or "test"; none is in two of them."""
    return _splits()[split]


def held_out(noun: str, verb: str) -> bool:
    """Whether training never says this of those."""
    return crc32(f"{noun} {verb}".encode()) % ONE_HELD_OUT_IN == 0


# ----------------------------------------------------------------------------------------------------------------------- logic


def relation(one: Term, other: Term) -> Relation:
    """Is what the first term says narrower or wider than the second?"""
    if one.parts == other.parts:
        return "same"
    return "narrower" if one.parts > other.parts else "wider" if one.parts < other.parts else "other"


@cache
def judged(first: Quantifier, second: Quantifier, subjects: Relation, predicates: Relation) -> str:
    """Of all worlds in which the first statement is true: is the second true in each, in none, or in some?"""
    if not _possible(first, second, subjects, predicates):
        return "contradiction"
    return "neutral" if _possible(first, DENIAL[second], subjects, predicates) else "entailment"


def _possible(first: Quantifier, second: Quantifier, subjects: Relation, predicates: Relation) -> bool:
    """Can both be true at once? Beings differ in which of the two subjects and predicates they are; some kinds must be absent."""
    beings = [(*who, *does) for who in _both(subjects) for does in _both(predicates)]
    said = ((first, 0, 2), (second, 1, 3))
    absent = {b for b in beings for q, who, does in said if b[who] and (q, b[does]) in (("every", False), ("no", True))}
    present = [{b for b in beings if b[who]} for _, who, _ in said]
    for q, who, does in said:
        if q in ("some", "not every"):
            present.append({b for b in beings if b[who] and b[does] == (q == "some")})
    return all(needed - absent for needed in present)


def _both(found: Relation) -> list[tuple[bool, bool]]:
    """What a being can be of two terms in this relation."""
    never = {"same": [(True, False), (False, True)], "narrower": [(True, False)], "wider": [(False, True)], "other": []}
    return [both for both in product((True, False), (True, False)) if both not in never[found]]


# ------------------------------------------------------------------------------------------------------------------------- words


@cache
def _splits() -> dict[str, list[Inference]]:
    return shared_out(islice(_stream(), STREAM), SIZES)


def _stream() -> Iterator[tuple[Inference, bool]]:
    """Without end and without repetition; and whether the words of a pair are new to training."""
    draw, told = Draw(SEED), set[Inference]()
    while True:
        pair, new = _pair(draw)
        if pair not in told:
            told.add(pair)
            yield pair, new


def _pair(draw: Draw) -> tuple[Inference, bool]:
    """Quantifiers are drawn first, then one of the two labels that they leave open, then how terms are related for it."""
    first, second = draw.pick(_undecided())
    label = draw.pick(sorted({judged(first, second, *both) for both in RELATED}))
    related = draw.pick([both for both in RELATED if judged(first, second, *both) == label])
    words = _words(draw)
    chosen = [draw.pick(_in_relation(terms, how)) for terms, how in zip((SUBJECTS, PREDICATES), related)]
    spelled = [[" ".join(words[part] for part in term.words.split()) for term in both] for both in zip(*chosen)]
    said = [_said(draw, quantifier, *both) for quantifier, both in zip((first, second), spelled)]
    new = any(held_out(subject.split()[-1], predicate.split()[0]) for subject, predicate in spelled)
    return Inference(said[0], said[1], label), new


@cache
def _undecided() -> list[tuple[Quantifier, Quantifier]]:
    """Quantifiers that alone do not tell the label: all but *some* and *not every* of each other."""
    every = product(QUANTIFIERS, QUANTIFIERS)
    return [both for both in every if len({judged(*both, *how) for how in RELATED}) > 1]


def _words(draw: Draw) -> dict[str, str]:
    """One for every role."""
    kind = draw.pick(tuple(KINDS))
    found = {"kind": kind, "verb": draw.pick(VERBS), "manner": draw.pick(MANNERS)}
    for one, other, words in (("noun", "another", KINDS[kind].split("|")), ("adjective", "unlike", ADJECTIVES)):
        found[one] = draw.pick(words)
        found[other] = draw.pick([word for word in words if word != found[one]])
    return found


@cache
def _in_relation(terms: tuple[Term, ...], wanted: Relation) -> list[tuple[Term, Term]]:
    return [both for both in product(terms, terms) if relation(*both) == wanted]


def _said(draw: Draw, quantifier: Quantifier, subject: str, predicate: str) -> str:
    verb, *manner = predicate.split()
    form = draw.pick(SAID[quantifier])
    return form.format(who=subject, does=predicate, do=" ".join([verb.removesuffix("s"), *manner])) + " ."
