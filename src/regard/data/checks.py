"""What a person wants to know about pairs before hours are spent on them: how many, how long, and what looks odd.

What a person wants to know of tagged sentences before hours are spent on them: what is there, and is their scheme obeyed?
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from regard.core.errors import UserError
from regard.data.labels.tagset import LETTERS, MARKED, OUTSIDE, Scheme, broken, spans, written
from regard.data.sources import Pair
from regard.data.sources.tagged import TaggedSentence

LONG = 1000  # characters: some 150 words, more than most sentences and costly to attend over
LOPSIDED = 5.0  # how many times longer one side is in characters; Chinese to English is about 3
SHORT = 20  # characters below which the ratio of two lengths says nothing


@dataclass(frozen=True)
class Lengths:
    """Means, maxima, and the pair, counted from 1, that holds the text with the most characters."""

    words_mean: float
    words_max: int
    characters_mean: float
    characters_max: int
    longest: int

    def __str__(self) -> str:
        return (
            f"{self.words_mean:.1f} words and {self.characters_mean:.1f} characters on average, at most "
            f"{self.words_max:,} and {self.characters_max:,} (pair {self.longest:,})"
        )


@dataclass(frozen=True)
class Summary:
    """`long` and `lopsided` are pairs counted from 1: for aligned files, the numbers of their lines."""

    name: str
    pairs: int
    source: Lengths
    target: Lengths
    duplicates: int
    identical: int
    long: tuple[int, ...]
    lopsided: tuple[int, ...]

    def warnings(self) -> list[str]:
        said = [
            (self.duplicates, f"{_share(self.duplicates, self.pairs)} repeat an earlier pair"),
            (self.identical, f"{_share(self.identical, self.pairs)} have a target equal to their source"),
            (len(self.long), f"{_share(len(self.long), self.pairs)} have a very long side: {_first(self.long)}"),
            (
                len(self.lopsided),
                f"{_share(len(self.lopsided), self.pairs)} have one side many times longer than the other, which may mean "
                f"that lines have slipped: {_first(self.lopsided)}",
            ),
        ]
        return [sentence for count, sentence in said if count]

    def lines(self) -> list[str]:
        """For the terminal."""
        return [
            f"{self.name}: {self.pairs:,} pairs",
            f"  source: {self.source}",
            f"  target: {self.target}",
            *(f"  warning: {sentence}" for sentence in self.warnings()),
        ]

    def __str__(self) -> str:
        return "\n".join(self.lines())


def check_pairs(pairs: Sequence[Pair], name: str, *, long: int = LONG, lopsided: float = LOPSIDED) -> Summary:
    """Count and measure; `long` is in characters, `lopsided` how many times longer one side may be."""
    if not pairs:
        raise UserError(f"{name} has no pairs. Give data with at least one: data.{name}=FILE, or data.{name}=a.en,a.de.")

    def numbers(odd: Callable[[int, int], bool]) -> tuple[int, ...]:
        return tuple(n for n, pair in enumerate(pairs, start=1) if odd(len(pair.source), len(pair.target)))

    return Summary(
        name=name,
        pairs=len(pairs),
        source=_lengths([pair.source for pair in pairs]),
        target=_lengths([pair.target for pair in pairs]),
        duplicates=len(pairs) - len(set(pairs)),
        identical=sum(pair.source == pair.target for pair in pairs),
        long=numbers(lambda s, t: max(s, t) > long),
        lopsided=numbers(lambda s, t: max(s, t) > SHORT and max(s, t) > lopsided * min(s, t)),
    )


def overlap(train: Sequence[Pair], test: Sequence[Pair]) -> int:
    """How many of the test pairs are also training pairs: a score over those is no evidence of learning."""
    seen = set(train)
    return sum(pair in seen for pair in test)


def _lengths(texts: list[str]) -> Lengths:
    words = [len(text.split()) for text in texts]
    characters = [len(text) for text in texts]
    most = max(characters)
    return Lengths(fmean(words), max(words), fmean(characters), most, characters.index(most) + 1)


def _share(count: int, of: int) -> str:
    return f"{count:,} of {of:,} pairs ({count / of:.1%})"


def _first(numbers: tuple[int, ...], shown: int = 5) -> str:
    """pairs 3, 17, 40, ..."""
    dots = ", ..." if len(numbers) > shown else ""
    return f"pair{'s' if len(numbers) > 1 else ''} " + ", ".join(f"{n:,}" for n in numbers[:shown]) + dots


RARE = 10  # entities of a type, or words with a tag, that are too few to learn it from


def obeying(sentences: Sequence[TaggedSentence], scheme: Scheme, repair: bool) -> tuple[list[TaggedSentence], int]:
    """The sentences, and how many of their tags were mended; where none is to be, one that breaks the scheme is refused."""
    found, mended = list[TaggedSentence](), 0
    for sentence in sentences:
        if scheme != "plain":
            _must_be_marked(sentence, scheme)
        if faults := broken(sentence.tags, scheme):
            tags = written(spans(sentence.tags), len(sentence.tags), scheme)
            if not repair:
                raise _breaks(sentence, scheme, faults[0], tags[faults[0]])
            sentence, mended = sentence._replace(tags=tuple(tags)), mended + len(faults)
        found.append(sentence)
    return found, mended


def _must_be_marked(sentence: TaggedSentence, scheme: Scheme) -> None:
    for n, tag in enumerate(sentence.tags):
        if tag != OUTSIDE and not (MARKED.fullmatch(tag) and tag[0] in LETTERS[scheme]):
            known = ", ".join([OUTSIDE, *(f"{letter}-TYPE" for letter in LETTERS[scheme])])
            raise UserError(
                f"{sentence.at(n)}: the tag {tag[:40]!r} is none of {scheme}, which has {known}. Mend it, or set "
                "data.scheme=plain to take every tag as it stands."
            )


def _breaks(sentence: TaggedSentence, scheme: Scheme, n: int, mended: str) -> UserError:
    after = f"behind {sentence.tags[n - 1]!r}" if n else "at the beginning of a sentence"
    return UserError(
        f"{sentence.at(n)}: the tag {sentence.tags[n]!r} {after} breaks {scheme}, which has {mended!r} there. Mend it, set "
        "data.repair=true to have all such tags mended, or data.scheme if the file is in another scheme."
    )


def described(sentences: Sequence[TaggedSentence], scheme: Scheme, shown: int = 8) -> list[str]:
    """How many words there are, and of which types their entities, the most frequent first; and what looks odd."""
    words = sum(len(sentence.words) for sentence in sentences)
    if scheme == "plain":
        counts = Counter(tag for sentence in sentences for tag in sentence.tags)
        what = f"{len(counts):,} tags"
    else:
        counts = Counter(span.type for sentence in sentences for span in spans(sentence.tags))
        what = f"{counts.total():,} entities ({scheme})"
    listed = ", ".join(f"{name} {count:,}" for name, count in counts.most_common(shown)) + (
        ", ..." if len(counts) > shown else ""
    )
    lines = [f"{words:,} words, {what}: {listed}" if counts else f"{words:,} words, {what}"]
    if rare := [name for name, count in counts.items() if count < RARE]:
        lines.append(f"warning: {len(rare)} of them are met fewer than {RARE} times, such as {rare[0]!r}; more would help.")
    return lines
