"""Built-in English-French pairs: few enough to learn in a minute, rich enough to show what attention does.

A meaning is drawn (`compose.py`) and said twice (`english.py`, `french.py`), so every pair is right by construction and
the same on every machine. Its heart is the lectures' example: in *the animal did not cross the street because it was
too tired* (or *too wide*) the French for *it*, `il` or `elle`, depends on which noun the last adjective fits.

Some combinations of words, one in twelve (subject, object) and (noun, adjective), are held out of training: half of the
validation and test sentences contain one, so that a score there cannot come from remembering.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain, islice
from zlib import crc32

from regard.data.sources import Pair
from tools.corpora.english import say_english
from tools.corpora.french import say_french
from tools.corpora.lexicon import lexicon
from tools.corpora.meaning import Action, Clause, Draw, Phrase, Reason, Sentence, State, compose

SEED = 2017
SIZES = {"train": 20_000, "valid": 500, "test": 1_000}
STREAM = 25_000  # sentences to draw, enough for these sizes
ONE_HELD_OUT_IN = 12
COMMON = 20  # times that training has a word, at least, before a test may ask for it
LECTURE_COMBINATION = ("animal", "street")


def english_french(split: str) -> list[Pair]:
    """The pairs of "train", "valid" or "test": no source and no target is in two of them."""
    return _corpus().splits[split]


def unseen(pair: Pair) -> bool:
    """Whether a validation or test pair combines words that are never combined in training."""
    return pair.source in _corpus().unseen


def held_out(first: str, second: str) -> bool:
    """Whether training never combines these two words, given by their English dictionary forms."""
    return (first, second) == LECTURE_COMBINATION or crc32(f"{first} {second}".encode()) % ONE_HELD_OUT_IN == 0


@dataclass(frozen=True)
class _Corpus:
    splits: dict[str, list[Pair]]
    unseen: frozenset[str]


@cache
def _corpus() -> _Corpus:
    """Train on sentences of familiar combinations; validate and test on as many familiar ones as unseen ones."""
    familiar: list[Pair] = []
    fresh: list[Pair] = []
    for sentence, pair in islice(_stream(), STREAM):
        new = any(held_out(*combination) for combination in sentence.combinations())
        (fresh if new else familiar).append(pair)
    train = familiar[: SIZES["train"]]
    common = _common_words(train)
    askable = [[pair for pair in pairs if common.issuperset(_words(pair))] for pairs in (fresh, familiar[len(train) :])]
    asked = [pair for alternating in zip(*askable) for pair in alternating]
    test, valid = asked[: SIZES["test"]], asked[SIZES["test"] : SIZES["test"] + SIZES["valid"]]
    return _Corpus({"train": train, "valid": valid, "test": test}, frozenset(pair.source for pair in fresh))


def _common_words(pairs: list[Pair]) -> frozenset[str]:
    """What every validation and test sentence is made of: to be judged on grammar, not on words hardly ever met."""
    counts = Counter(chain.from_iterable(map(_words, pairs)))
    return frozenset(word for word, count in counts.items() if count >= COMMON)


def _words(pair: Pair) -> list[str]:
    return f"{pair.source} {pair.target}".split()


def _stream() -> Iterator[tuple[Sentence, Pair]]:
    """Pairs without end and without repetition, the lectures' own first; no two of the others share a target."""
    said: set[str] = set()
    for sentence in _lecture_sentences():
        pair = Pair(say_english(sentence), say_french(sentence))
        said |= set(pair)
        yield sentence, pair
    draw, words = Draw(SEED), lexicon()
    while True:
        sentence = compose(draw, words)
        pair = Pair(say_english(sentence), say_french(sentence))
        if said.isdisjoint(pair):
            said |= set(pair)
            yield sentence, pair


def _lecture_sentences() -> Iterator[Sentence]:
    """The animal did not cross the street because it was too tired, or too wide; and with "didn't"."""
    words = lexicon()
    animal, street = (Phrase(words.nouns[name]) for name in LECTURE_COMBINATION)
    for contracted in (False, True):
        clause = Clause(animal, Action(words.verbs["cross"], street), "past", negated=True, contracted=contracted)
        yield Sentence(clause, Reason(animal, State(words.adjectives["tired"], "too")))
        yield Sentence(clause, Reason(street, State(words.adjectives["wide"], "too")))
