"""Read pairs of texts: from aligned files, tables, JSON lines, the hub, or a built-in corpus.

    ("train.en", "train.de")          two text files; line n of one belongs to line n of the other
    ("train.tsv",) ("train.csv",)     a table; TSV is split at tabs and nothing else, CSV may quote
    ("train.jsonl",)                  one object on each line (.ndjson too)
    ("builtin:english-french/train",) a corpus that needs no network
    ("hf:NAME@CONFIG:SPLIT",)         `datasets` opens NAME; @CONFIG and :SPLIT may be left out, SPLIT is then train

Every file may be gzipped (.gz). `columns` says which two columns hold source and target. By name, the table's first row is its
header; by number ("0", "1") it has none. Not at all means that the first row names them (source and target, or two languages),
or else that there are just two and no header. JSON lines and the hub have names only: "source" and "target" unless given
otherwise, also inside a "translation" as on the hub. Aligned files and built-in corpora have no columns and
ignore them, so that one recipe can mix sources.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path
from statistics import fmean

from regard.core.errors import UserError
from regard.data.builtin import read_builtin
from regard.data.sources import Pair
from regard.data.sources.columns import SAMPLE, is_header, pair_columns
from regard.data.sources.files import must_be_file, numbered_lines, suffix_of
from regard.data.sources.records import (
    Record,
    hub_records,
    json_records,
    separator_hint,
    table_records,
    table_rows,
    text_of,
)

Columns = tuple[str, str]
BUILTIN = ("english-french", "dates")
NAMED = ("source", "target")
TABLES = (".tsv", ".csv", ".jsonl", ".ndjson")


def read_pairs(where: tuple[str, ...], columns: Columns | None = None, limit: int | None = None) -> list[Pair]:
    """Read all pairs, or the first `limit`."""
    if limit is not None and limit < 1:
        raise UserError(f"A limit of {limit} pairs leaves nothing to read. Give 1 or more, or none.")
    if not (pairs := list(islice(_pairs(where, columns), limit))):
        raise UserError(f"{' and '.join(where)}: there are no pairs in it. Give data with at least one.")
    return pairs


def _pairs(where: tuple[str, ...], columns: Columns | None) -> Iterator[Pair]:
    match where:
        case (name,) if name.startswith("builtin:"):
            return (Pair(*row) for row in read_builtin(name, BUILTIN, "pairs of texts"))
        case (name,) if name.startswith("hf:"):
            return (_pick(record, columns or NAMED) for record in hub_records(name))
        case (name,):
            return _from_table(Path(name).expanduser(), columns)
        case (source, target):
            return _from_aligned(Path(source).expanduser(), Path(target).expanduser())
        case _:
            raise UserError(
                f"Data is one table (train.tsv) or two aligned text files (train.en,train.de), but this was given: {where!r}."
            )


def _from_aligned(source: Path, target: Path) -> Iterator[Pair]:
    for path in (source, target):
        must_be_file(path)
        if suffix_of(path) in TABLES:
            raise UserError(
                f"{path} is a table, which holds both sides, but two files were given: {source} and {target}. Give one table "
                "alone, or two text files in which line n of one belongs to line n of the other."
            )
    for left, right in zip_longest(numbered_lines(source), numbered_lines(target)):
        if left is None or right is None:
            counts = [sum(1 for _ in numbered_lines(path)) for path in (source, target)]
            raise UserError(
                f"{source} has {counts[0]:,} lines and {target} has {counts[1]:,}, but line n of one must belong to line n "
                f"of the other. Look for a missing or extra line up to line {min(counts) + 1:,}."
            )
        (number, source_text), (_, target_text) = left, right
        for path, text in ((source, source_text), (target, target_text)):
            _must_have_text(text, f"{path}, line {number}", "this line")
        yield Pair(source_text, target_text)


def _from_table(path: Path, columns: Columns | None) -> Iterator[Pair]:
    must_be_file(path)
    match suffix_of(path):
        case ".tsv" | ".csv":
            names = columns or header_sides(path) or _two(path)
            return (_pick(record, names) for record in table_records(path, table_rows(path), names))
        case ".jsonl" | ".ndjson":
            return (_pick(record, columns or NAMED) for record in json_records(path, columns or NAMED))
        case _:
            raise UserError(
                f"{path} is one file of plain text, but pairs need two: {path},OTHER with line n of one belonging to line n "
                f"of the other. A file with both sides must be named *{', *'.join(TABLES)}."
            )


def header_sides(path: Path) -> Columns | None:
    """Return the source and target columns of a table if its first row names them, else None."""
    (_, first), *below = islice(table_rows(path), SAMPLE)
    found = pair_columns(first).columns
    return (found[0], found[1]) if found and is_header(first, [row for _, row in below], found) else None


def _two(path: Path) -> Columns:
    start, first = next(table_rows(path))
    if len(first) != 2:
        raise UserError(
            f"{path}, line {start}: columns found: {len(first)}, expected: 2. Choose two by number, data.columns=0,1, or by the "
            f"names in the first row, for instance data.columns=en,de.{separator_hint(path)}"
        )
    return ("0", "1")


def describe_columns(where: tuple[str, ...], columns: Columns | None) -> list[str]:
    """Describe which columns were chosen of a table whose columns were not given."""
    if columns or len(where) != 1 or where[0].startswith(("builtin:", "hf:")):
        return []
    if suffix_of(path := Path(where[0]).expanduser()) not in (".tsv", ".csv") or not (found := header_sides(path)):
        return []
    return [f"{path}: source {found[0]!r}, target {found[1]!r}, by its header. For others: data.columns=SOURCE,TARGET"]


def _pick(record: Record, columns: Columns) -> Pair:
    place, values = record
    inner = values.get("translation")
    values = inner if isinstance(inner, Mapping) else values
    texts = []
    for column in columns:
        texts.append(text_of((place, values), column, "data.columns=NAME,NAME"))
        _must_have_text(texts[-1], place, f"column {column!r}")
    return Pair(*texts)


def _must_have_text(text: str, place: str, what: str) -> None:
    if not text.strip():
        raise UserError(f"{place}: {what} is empty, but both sides need text. Fill it in, or take it out on both sides.")


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
        """Return the summary as lines for the terminal."""
        return [
            f"{self.name}: {self.pairs:,} pairs",
            f"  source: {self.source}",
            f"  target: {self.target}",
            *(f"  warning: {sentence}" for sentence in self.warnings()),
        ]


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
    """Count the test pairs that are also training pairs: a score over those is no evidence of learning."""
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
    """Return the first numbers as text: pairs 3, 17, 40, ..."""
    dots = ", ..." if len(numbers) > shown else ""
    return f"pair{'s' if len(numbers) > 1 else ''} " + ", ".join(f"{n:,}" for n in numbers[:shown]) + dots
