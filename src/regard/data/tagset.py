"""The tag set of a tagger, collected from the training sentences and saved with the run, and the schemes that mark entities.

    words    Ann    Lee    saw   Rome   Oslo     is marked by
    iob1     I-PER  I-PER  O     I-LOC  B-LOC    B- only behind an entity of the same type   (Ramshaw & Marcus 1995)
    iob2     B-PER  I-PER  O     B-LOC  B-LOC    B- wherever one begins                      (Tjong Kim Sang & Veenstra 1999)
    iobes    B-PER  E-PER  O     S-LOC  S-LOC    E- where it ends, S- where it is one word
    plain    NNP    NNP    VBD   NNP    NNP      nothing: parts of speech, say

What entities a row of tags means is read as conlleval reads it, also where a scheme is broken. So a row obeys a scheme exactly
if its entities, written in that scheme, give the row again; where they differ, the row is broken, and the written tags repair it.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import numpy as np

from regard.core.errors import UserError, nearest
from regard.core.files import read_bounded, write_whole
from regard.data.sources.tagged import TaggedSentence

MANY, SHARED = 50, 0.2  # more tags than this, and more than this share of the words, and they are none


@dataclass(frozen=True)
class Tags:
    """Tag names, in the order of the model's scores."""

    names: tuple[str, ...]
    scheme: Scheme

    @classmethod
    def of(cls, sentences: Sequence[TaggedSentence], scheme: Scheme) -> Tags:
        """Collect the tags of training sentences in this scheme; every entity type gets all tags of the scheme."""
        found = Counter(tag for sentence in sentences for tag in sentence.tags)
        if len(found) < 2:
            raise UserError(
                f"data.train has one tag only, {sentences[0].tags[0]!r}, so there is nothing to learn. Check data.columns "
                "(word,tag): in column files by number, for instance data.columns=0,3."
            )
        if len(found) > max(MANY, SHARED * found.total()):
            raise UserError(
                f"data.train has {len(found):,} tags for {found.total():,} words, such as {sentences[0].tags[0][:40]!r}; are the "
                "columns swapped? Give data.columns=WORD,TAG."
            )
        if scheme == "plain":
            return cls(tuple(sorted(found)), scheme)
        kept: Scheme = "iob2" if scheme == "iob1" else scheme  # whose B- is too rare to be learned
        types = sorted({tag.partition("-")[2] for tag in found} - {""})
        return cls((OUTSIDE, *(f"{letter}-{type_}" for type_ in types for letter in LETTERS[kept])), kept)

    @classmethod
    def of_names(cls, names: Sequence[str], scheme: Scheme | None = None) -> Tags:
        """Build from a public checkpoint's names; scheme None: the one that the names suggest."""
        return cls(tuple(names), scheme or scheme_of_names(names))

    def __len__(self) -> int:
        return len(self.names)

    @property
    def types(self) -> tuple[str, ...]:
        """Return the entity types; of plain tags the tags themselves."""
        if self.scheme == "plain":
            return self.names
        return tuple(dict.fromkeys(name.partition("-")[2] for name in self.names if name != OUTSIDE))

    def numbers(self, sentences: Sequence[TaggedSentence], split: str) -> list[list[int]]:
        """Return each word's tag as a number, in the scheme of these tags; a tag that training does not have is refused."""
        number, found = {name: n for n, name in enumerate(self.names)}, []
        for sentence in sentences:
            for n, tag in enumerate(sentence.tags):
                if not self.knows(tag):
                    known = nearest(tag, self.names)
                    raise UserError(f"data.{split}: {sentence.at(n)}: the tag {tag!r} is not one that training knows{known}")
            found.append([number[tag] for tag in self.rewritten(sentence.tags)])
        return found

    def knows(self, tag: str) -> bool:
        """Return True if the tag is one of these, or names the same in another scheme."""
        if self.scheme == "plain" or tag == OUTSIDE:
            return tag in self.names
        return MARKED.fullmatch(tag) is not None and tag.partition("-")[2] in self.types

    def rewritten(self, tags: Sequence[str]) -> Sequence[str]:
        """Return the tags of the same entities in the scheme of these tags."""
        return tags if self.scheme == "plain" else tags_of_spans(spans(tags), len(tags), self.scheme)

    def save(self, path: Path) -> None:
        write_whole(path, json.dumps({"scheme": self.scheme, "labels": self.names}, indent=1, ensure_ascii=False) + "\n")

    @classmethod
    def load(cls, path: Path) -> Tags:
        if not path.is_file():
            raise UserError(f"There are no tags at {path}. Copy it back, or make it again by the same 'regard train' command.")
        try:
            found = json.loads(read_bounded(path, within=path.parent).decode())
            names, scheme = tuple(found["labels"]), found["scheme"]
        except (ValueError, RecursionError, TypeError, KeyError):
            names, scheme = (), ""
        if len(names) < 2 or scheme not in get_args(Scheme) or not all(isinstance(name, str) for name in names):
            raise UserError(f"{path} is damaged; copy it again from where the run was made, or train another run.")
        return cls(names, scheme)


Scheme = Literal["iob1", "iob2", "iobes", "plain"]
LETTERS: dict[Scheme, str] = {"iob1": "BI", "iob2": "BI", "iobes": "BIES", "plain": ""}
MARKED = re.compile(r"[BIES]-.+")
OUTSIDE = "O"


class Span(NamedTuple):
    """Words `start` to `end`, the latter not included, are an entity of this type."""

    start: int
    end: int
    type: str


def spans(tags: Sequence[str]) -> list[Span]:
    """Return the entities of a sentence in any of the three schemes; an inside tag that follows nothing begins an entity."""
    found, begun, inside = list[Span](), 0, ""
    for n, tag in enumerate(tags):
        letter, _, type_ = tag.partition("-")
        if inside and (letter not in "IE" or type_ != inside):
            found.append(Span(begun, n, inside))
            inside = ""
        if letter != OUTSIDE and not inside:
            begun, inside = n, type_
        if letter in "ES":
            found.append(Span(begun, n + 1, inside))
            inside = ""
    return [*found, Span(begun, len(tags), inside)] if inside else found


def tags_of_spans(entities: Iterable[Span], length: int, scheme: Scheme) -> list[str]:
    """Return the tags of a sentence of `length` words that has these entities, in order."""
    tags = [OUTSIDE] * length
    for start, end, type_ in entities:
        letters = ["I"] * (end - start)
        if scheme == "iob2" or (start and tags[start - 1] in (f"B-{type_}", f"I-{type_}")):
            letters[0] = "B"
        if scheme == "iobes":
            letters = ["S"] if end - start == 1 else ["B", *letters[1:-1], "E"]
        tags[start:end] = [f"{letter}-{type_}" for letter in letters]
    return tags


def find_broken(tags: Sequence[str], scheme: Scheme) -> list[int]:
    """Return the indices of the words whose tags break the scheme."""
    repaired = list(tags) if scheme == "plain" else tags_of_spans(spans(tags), len(tags), scheme)
    return [n for n, (tag, other) in enumerate(zip(tags, repaired)) if tag != other]


def guess_scheme(rows: Sequence[Sequence[str]]) -> Scheme:
    """Return the scheme these sentences follow, or break least; iob2 if two fit equally well."""
    marks = [tag for tags in rows for tag in tags if tag != OUTSIDE]
    marked = [tag for tag in marks if MARKED.fullmatch(tag)]
    if 2 * len(marked) <= len(marks):
        return "plain"
    rows = [[tag if MARKED.fullmatch(tag) else OUTSIDE for tag in tags] for tags in rows]
    schemes: tuple[Scheme, ...] = ("iob2", "iob1", "iobes")
    return min(schemes, key=lambda scheme: sum(len(find_broken(tags, scheme)) for tags in rows))


def scheme_of_names(names: Iterable[str]) -> Scheme:
    """Return the scheme of tags that are known by name only, such as a public checkpoint's; iob1 and iob2 share their names."""
    marks = [name for name in names if name != OUTSIDE]
    if not all(MARKED.fullmatch(name) for name in marks):
        return "plain"
    return "iobes" if any(name[0] in "ES" for name in marks) else "iob2"


def transitions(names: Sequence[str], scheme: Scheme) -> np.ndarray:
    """Return may_CC: may the tag of a column follow that of a row? The last row and column are the sentence's ends."""
    around = [*names, None]
    return np.array([[_may_follow(before, tag, scheme) for tag in around] for before in around])


def _may_follow(before: str | None, tag: str | None, scheme: Scheme) -> bool:
    if scheme == "plain":
        return True
    (was, of), (letter, type_) = _parts(before), _parts(tag)
    open_same = was in "BI" and of == type_
    match scheme:
        case "iob1":
            return letter != "B" or open_same
        case "iob2":
            return letter != "I" or open_same
        case _:
            return open_same if letter in "IE" else was not in "BI"


def _parts(tag: str | None) -> tuple[str, str]:
    letter, _, type_ = (tag or OUTSIDE).partition("-")
    return letter, type_


RARE = 10  # entities of a type, or words with a tag, that are too few to learn it from


def repair_tags(sentences: Sequence[TaggedSentence], scheme: Scheme, repair: bool) -> tuple[list[TaggedSentence], int]:
    """Return the sentences and how many of their tags were repaired; without `repair`, a broken tag is refused."""
    found, repaired = list[TaggedSentence](), 0
    for sentence in sentences:
        if scheme != "plain":
            _must_be_marked(sentence, scheme)
        if faults := find_broken(sentence.tags, scheme):
            tags = tags_of_spans(spans(sentence.tags), len(sentence.tags), scheme)
            if not repair:
                n = faults[0]
                after = f"behind {sentence.tags[n - 1]!r}" if n else "at the beginning of a sentence"
                raise UserError(
                    f"{sentence.at(n)}: the tag {sentence.tags[n]!r} {after} breaks {scheme}, which has {tags[n]!r} there. "
                    "Correct it, set data.repair=true to have all such tags repaired, or data.scheme if the file is in another "
                    "scheme."
                )
            sentence, repaired = sentence._replace(tags=tuple(tags)), repaired + len(faults)
        found.append(sentence)
    return found, repaired


def _must_be_marked(sentence: TaggedSentence, scheme: Scheme) -> None:
    for n, tag in enumerate(sentence.tags):
        if tag != OUTSIDE and not (MARKED.fullmatch(tag) and tag[0] in LETTERS[scheme]):
            known = ", ".join([OUTSIDE, *(f"{letter}-TYPE" for letter in LETTERS[scheme])])
            raise UserError(
                f"{sentence.at(n)}: the tag {tag[:40]!r} is none of {scheme}, which has {known}. Correct it, or set "
                "data.scheme=plain to take every tag as it stands."
            )


def describe_tags(sentences: Sequence[TaggedSentence], scheme: Scheme, shown: int = 8) -> list[str]:
    """Describe the tags: number of words, entities by type, the most frequent first, and warnings."""
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
