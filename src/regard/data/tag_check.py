"""What a person wants to know of tagged sentences before hours are spent on them: what is there, and is their scheme obeyed?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from regard.data.schemes import LETTERS, MARKED, OUTSIDE, Scheme, broken, spans, written
from regard.data.tagged import TaggedSentence
from regard.errors import UserError

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
