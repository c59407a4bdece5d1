"""Built-in corpora that need no network: fixed rows, shipped as rows/NAME-SPLIT.jsonl.gz and written by tools/corpora.

    english-french   dates        pairs of texts                              data/sources/parallel.py
    remarks  reviews  inference  similarity     texts or pairs with a label    data/sources/labelled.py
    dispatches                    words and their entity tags                  data/sources/tagged.py
    stories                       questions about a text                       data/sources/qa.py
    smalltalk                     dialogues                                    data/sources/dialogues.py

Every row is a JSON array of fields. Corpora that depend on settings or on the machine stay code: `scenes` (drawn images),
the tasks of `data/lra`, and what is below.

python-reference is the language reference that every CPython carries for its `help()`: real English prose, offline, on every
machine. `pydoc_data.topics` holds it by topic, and topics overlap: "else" is the section that "if" is, and "compound" has both.
So the topics are taken apart into their sections, and each section is kept once, as one document: some 150 of them, 370 kB. The
text belongs to the Python that runs, so another version has a slightly different one: `describe_reference` says which. The splits
share no ten words in a row. Sections that do, such as those on "while" and "for", are kept together; a twentieth of the text goes
to validation and another to the test, by a hash of the titles, so that most sections stay where they are from version to version.
"""

from __future__ import annotations

import gzip
import json
import platform
import re
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any

from regard.core.errors import UserError, nearest

ROWS = Path(__file__).parent / "rows"
SPLITS = ("train", "valid", "test")


def read_builtin(where: str, names: Collection[str], what: str, others: Iterable[str] = ()) -> list[list[Any]]:
    """Return the rows of builtin:NAME/SPLIT, NAME being one of `names`; `others` are suggested too when NAME is unknown."""
    name, _, split = where.removeprefix("builtin:").partition("/")
    if name not in names:
        raise UserError(f"There are no built-in {what} {name!r}{nearest(name, [*names, *others])}")
    if not split:
        raise UserError(f"{where} lacks a split. Type builtin:{name}/train, or /valid, or /test.")
    return builtin_rows(name, split)


def builtin_rows(name: str, split: str) -> list[list[Any]]:
    """Return all rows of one split of a corpus that is shipped, in the order of the corpus."""
    if split not in SPLITS:
        raise UserError(f"The built-in {name} has no split {split!r}{nearest(split, SPLITS)}")
    lines = gzip.decompress((ROWS / f"{name}-{split}.jsonl.gz").read_bytes()).decode().splitlines()
    return json.loads(f"[{','.join(lines)}]")


HELD_OUT = 0.05  # of the characters, for valid and for test
MOST_AT_ONCE = 0.25  # of that, from one group of sections, lest a score hang on a single subject
SHARED = 10  # words in a row that no two splits have both
LEAST_WORDS = 20  # in a section; shorter ones only lead to others
HEADING = re.compile(r"^(?P<title>\S.*)\n(?P<line>(?P<mark>[*=\-~^\"])(?P=mark)+)\n", re.MULTILINE)


def python_reference(split: str) -> list[str]:
    """Return the documents of "train", "valid" or "test"."""
    if split not in SPLITS:
        raise UserError(f"The Python reference has no split {split!r}{nearest(split, SPLITS)}")
    return list(_splits()[split])


def describe_reference() -> str:
    """Return the name and hash of the text, for model cards and caches; it changes whenever the text does."""
    digest = sha256("\0".join(text for split in SPLITS for text in _splits()[split]).encode()).hexdigest()
    return f"the language reference of CPython {platform.python_version()} (pydoc_data), sha256 {digest[:12]}"


@cache
def _splits() -> dict[str, list[str]]:
    groups = _related(_sections())
    room = HELD_OUT * sum(len(text) for group in groups for text in group)
    kept: dict[str, list[str]] = {split: [] for split in SPLITS}
    left = {"valid": room, "test": room}
    # As good as random and always the same: by a hash of the first title.
    for group in sorted(groups, key=lambda group: blake2b(min(text.partition("\n")[0] for text in group).encode()).digest()):
        size = sum(map(len, group))
        split = next((split for split in left if size <= min(left[split], MOST_AT_ONCE * room)), "train")
        if split in left:
            left[split] -= size
        kept[split] += group
    return kept


def _sections() -> list[str]:
    """Return each section of each topic once."""
    try:
        from pydoc_data.topics import topics
    except ImportError as error:
        raise UserError(
            "This Python came without pydoc_data, the text of its reference. Install the whole standard library, or name a text "
            "of your own: data.train=FILE."
        ) from error
    titles: dict[str, str] = {}  # by the text alone, since a section is underlined differently where it lies deeper
    for _, topic in sorted(topics.items()):
        for title, text in _sections_of(topic):
            if len(text.split()) >= LEAST_WORDS:
                titles.setdefault(text, title)
    return [f"{title}\n{'=' * len(title)}\n\n{text}\n" for text, title in titles.items()]


def _sections_of(topic: str) -> Iterator[tuple[str, str]]:
    headings = [heading for heading in HEADING.finditer(topic) if len(heading["line"]) >= len(heading["title"])]
    ends = [heading.start() for heading in headings[1:]] + [len(topic)]
    for heading, end in zip(headings, ends):
        yield heading["title"], topic[heading.end() : end].strip()


def _related(texts: list[str]) -> list[list[str]]:
    """Group the texts so that no two groups share SHARED words in a row."""
    group_of = {n: [n] for n in range(len(texts))}
    first: dict[tuple[str, ...], int] = {}
    for n, text in enumerate(texts):
        words = text.split()
        for row in zip(*(words[shift:] for shift in range(SHARED))):
            ours, theirs = group_of[n], group_of[first.setdefault(row, n)]
            if ours is not theirs:
                theirs += ours
                group_of |= dict.fromkeys(ours, theirs)
    return [[texts[n] for n in sorted(group)] for group in {id(group): group for group in group_of.values()}.values()]
