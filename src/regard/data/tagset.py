"""The tags that words may have: learned from the training sentences, and kept with the run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from regard.data.schemes import LETTERS, MARKED, OUTSIDE, Scheme, scheme_of_names, spans, written
from regard.data.tagged import TaggedSentence
from regard.errors import UserError, nearest
from regard.files import read_bounded, write_whole

MANY, SHARED = 50, 0.2  # more tags than this, and more than this share of the words, and they are none


@dataclass(frozen=True)
class Tags:
    """In the order of the model's scores, which mean nothing without it."""

    names: tuple[str, ...]
    scheme: Scheme

    @classmethod
    def of(cls, sentences: Sequence[TaggedSentence], scheme: Scheme) -> Tags:
        """Of training sentences in this scheme. Every type has all the tags that the scheme has, met or not."""
        found = Counter(tag for sentence in sentences for tag in sentence.tags)
        if len(found) < 2:
            raise UserError(
                f"data.train has one tag only, {sentences[0].tags[0]!r}, so there is nothing to tell apart. Check data.columns "
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
        """A public checkpoint's; None: the scheme that the names tell of."""
        return cls(tuple(names), scheme or scheme_of_names(names))

    def __len__(self) -> int:
        return len(self.names)

    @property
    def types(self) -> tuple[str, ...]:
        """Of entities; of plain tags the tags themselves."""
        if self.scheme == "plain":
            return self.names
        return tuple(dict.fromkeys(name.partition("-")[2] for name in self.names if name != OUTSIDE))

    def numbers(self, sentences: Sequence[TaggedSentence], split: str) -> list[list[int]]:
        """Each word's tag as a number, in the scheme of these tags; one that training does not have is refused."""
        number, found = {name: n for n, name in enumerate(self.names)}, []
        for sentence in sentences:
            for n, tag in enumerate(sentence.tags):
                if not self.knows(tag):
                    known = nearest(tag, self.names)
                    raise UserError(f"data.{split}: {sentence.at(n)}: the tag {tag!r} is not one that training knows{known}")
            found.append([number[tag] for tag in self.rewritten(sentence.tags)])
        return found

    def knows(self, tag: str) -> bool:
        """Whether it is one of these, or says the same in another scheme."""
        if self.scheme == "plain" or tag == OUTSIDE:
            return tag in self.names
        return MARKED.fullmatch(tag) is not None and tag.partition("-")[2] in self.types

    def rewritten(self, tags: Sequence[str]) -> Sequence[str]:
        """The same entities in the scheme of these tags."""
        return tags if self.scheme == "plain" else written(spans(tags), len(tags), self.scheme)

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
