"""Word vectors by word, and the file formats that word2vec, GloVe and fastText write.

    word2vec          a line with how many words and how many numbers each, then a line for each word and its numbers
    word2vec-binary   the same first line, then each word, a space, and its numbers as four bytes each
    glove             no first line

Every one may be gzipped (.gz). fastText's .vec files are of the first kind. The kind is recognized by the content. A word that is
not UTF-8, as old programs left when they cut long words, is read with U+FFFD for what it is not; of a word that comes twice the
first is taken; in a line with more fields than numbers the word is all that stands before them.

Their benchmarks are analogies in the format of word2vec's questions-words.txt, and rated word pairs:

    : capital-common-countries     a section; then a question a line: Athens is to Greece as Baghdad is to Iraq
    Athens Greece Baghdad Iraq

    tiger, cat, 7.35               a pair and how alike people find it, with tabs, commas or spaces between; more columns,
                                   as of single raters, are not looked at, nor is a header
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from io import BufferedIOBase
from pathlib import Path
from typing import NamedTuple

import numpy as np

from regard.core.errors import UserError, nearest
from regard.core.files import MIB, create_file, format_size, open_maybe_gzipped
from regard.core.terminal import quoted
from regard.data.sources.files import numbered_lines

SAMPLE = 2**16  # bytes by which the kind of a file is recognized
LONGEST = 2**12  # bytes of a word
LONGEST_LINE = 2 * MIB
WIDEST = 2**16  # numbers of a word; those of large models have some thousands
AGAIN = "Copy or download it again"


@dataclass(frozen=True, eq=False)
class WordVectors:
    words: tuple[str, ...]  # the most frequent first, as all known programs write them
    vectors_VD: np.ndarray  # float32
    numbers: dict[str, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.vectors_VD.ndim != 2 or len(self.words) != len(self.vectors_VD):
            raise ValueError(f"{len(self.words)} words need as many vectors; these are {self.vectors_VD.shape}.")
        object.__setattr__(self, "numbers", {word: n for n, word in enumerate(self.words)})

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, word: str) -> np.ndarray:
        return self.vectors_VD[self.numbers[word]]

    @property
    def width(self) -> int:
        return int(self.vectors_VD.shape[1])


def read_vectors(path: Path, limit: int = 0) -> WordVectors:
    """Read all vectors of a file, or those of its first `limit` words."""
    try:
        with open_maybe_gzipped(path) as file:
            first = file.readline(SAMPLE)
            size = _header(first, path)
            after = file.read(SAMPLE)
            file.seek(len(first) if size else 0)
            if size is None:
                rows = _text_rows(file, path, len(first.split()) - 1, None, 1)
            elif _is_text(after, size[1]):
                _must_fit(path, *size, 2)  # a digit and what parts it from the next
                rows = _text_rows(file, path, size[1], size[0], 2)
            else:
                _must_fit(path, *size, 4)
                rows = _binary_rows(file, path, *size)
            return _collected(rows, path, size, limit)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}. Check who may read it.") from error


def _header(line: bytes, path: Path) -> tuple[int, int] | None:
    fields = line.split()
    if len(fields) != 2 or not all(field.isdigit() for field in fields):
        return None
    if max(map(len, fields)) > 12 or int(fields[1]) > WIDEST:
        raise UserError(
            f"{path}, line 1: {_shown(fields[0])} words of {_shown(fields[1])} numbers each are more than any file has; "
            f"{WIDEST:,} numbers are read at most. {AGAIN}."
        )
    return int(fields[0]), int(fields[1])


def _must_fit(path: Path, words: int, width: int, each: int) -> None:
    """Refuse a first line that announces more than the file can hold, unless the file is gzipped."""
    if path.suffix.lower() != ".gz" and words * width * each > (found := path.stat().st_size):
        raise UserError(
            f"{path}, line 1: {words:,} words of {width:,} numbers each do not fit into the {format_size(found)} that the file "
            f"has; part of it is missing, or the line is wrong. {AGAIN}."
        )


def _is_text(sample: bytes, width: int) -> bool:
    """Return True if a line of numbers follows the first line."""
    fields = sample.partition(b"\n")[0].split()
    try:
        np.array(fields[max(0, len(fields) - width) :], np.float32)
    except ValueError:
        return False
    return len(fields) > width


Row = tuple[bytes, np.ndarray]


def _text_rows(file: BufferedIOBase, path: Path, width: int, expected: int | None, first: int) -> Iterator[Row]:
    if width < 1:
        raise UserError(
            f"{path}, line {first}: {_shown(file.readline(80))} is not a word and its numbers; give a file of word vectors, as "
            "word2vec, fastText or GloVe write them."
        )
    found = 0
    for number, line in enumerate(iter(lambda: file.readline(LONGEST_LINE + 1), b""), first):
        if len(line) > LONGEST_LINE:
            raise UserError(
                f"{path}, line {number:,}: it is longer than {format_size(LONGEST_LINE)}, so it is no word vector. {AGAIN}."
            )
        fields = line.split()
        if not fields:
            continue
        if len(fields) <= width:
            raise UserError(
                f"{path}, line {number:,}: there are {len(fields) - 1} numbers behind {_shown(fields[0])}, and {width} are "
                f"expected. {AGAIN}."
            )
        try:
            vector = np.array(fields[len(fields) - width :], np.float32)
        except ValueError as error:
            raise UserError(f"{path}, line {number:,}: {quoted(str(error))}, but a number is expected. {AGAIN}.") from None
        if found == expected:
            raise UserError(f"{path}, line {number:,}: the first line says {expected:,} words, but there are more. {AGAIN}.")
        found += 1
        yield b" ".join(fields[: len(fields) - width]), vector


def _binary_rows(file: BufferedIOBase, path: Path, expected: int, width: int) -> Iterator[Row]:
    """Yield words and vectors of the binary format; some programs write a line end after the numbers."""
    held, size = b"", 4 * width
    for number in range(expected):
        while (space := held.find(b" ")) < 0 or len(held) < space + 1 + size:
            if space < 0 and len(held) > LONGEST:
                raise UserError(f"{path}: word {number + 1:,} has no end; this is no file of word vectors. {AGAIN}.")
            if not (more := file.read(max(SAMPLE, size))):
                raise UserError(f"{path} ends after {number:,} of {expected:,} words. {AGAIN}.")
            held += more
        yield held[:space].lstrip(b"\n"), np.frombuffer(held, "<f4", width, space + 1).astype(np.float32)
        held = held[space + 1 + size :]
    if (held + file.read(SAMPLE)).strip():
        raise UserError(f"{path}: the first line says {expected:,} words, but there is more behind them. {AGAIN}.")


def _collected(rows: Iterator[Row], path: Path, size: tuple[int, int] | None, limit: int) -> WordVectors:
    words: dict[str, None] = {}
    vectors: list[np.ndarray] = []
    found = 0
    for found, (name, vector) in enumerate(rows, 1):
        word = name.decode("utf-8", "replace")
        if not np.isfinite(vector).all():
            raise UserError(f"{path}: the vector of {_shown(name)}, word {found:,}, is not made of numbers alone. {AGAIN}.")
        if word and word not in words:
            words[word] = None
            vectors.append(vector)
        if found == limit:
            return WordVectors(tuple(words), np.stack(vectors))
    if size is not None and found < size[0]:
        raise UserError(f"{path} ends after {found:,} of {size[0]:,} words. {AGAIN}.")
    if not words:
        raise UserError(f"{path} is empty: there are no word vectors in it. Give a file that word2vec, fastText or GloVe wrote.")
    return WordVectors(tuple(words), np.stack(vectors))


def _shown(name: bytes) -> str:
    return repr(name[:40].decode("utf-8", "replace"))


FILES = {"word2vec": "vectors.vec", "word2vec-binary": "vectors.bin", "glove": "vectors.txt"}  # by what each is mostly called
ENDS = set(" \t\n\r\v\f")  # of a word, in these files


def write_vectors(path: Path, vectors: WordVectors, kind: str) -> None:
    """Write vectors atomically in one of the formats of FILES; gzipped if the name ends with .gz."""
    if kind not in FILES:
        raise UserError(f"--to {kind} is not a format{nearest(kind, FILES)}")
    for word in vectors.words:
        if not word or set(word) & ENDS:
            raise UserError(f"the word {word!r} has a space in it, and these files end words there; take it out first.")
    part = path.with_name(f".{path.name}.part")
    with create_file(part) as raw, gzip.GzipFile(fileobj=raw, mode="wb") if path.suffix == ".gz" else nullcontext(raw) as file:
        if kind != "glove":
            file.write(f"{len(vectors)} {vectors.width}\n".encode())
        for word, vector in zip(vectors.words, vectors.vectors_VD.astype("<f4")):
            # As text, a number has as few digits as bring back the same one.
            numbers = vector.tobytes() if kind == "word2vec-binary" else " ".join(vector.astype(str)).encode()
            file.write(word.encode() + b" " + numbers + b"\n")
    part.replace(path)


Question = tuple[str, str, str, str]


class Questions(NamedTuple):
    name: str
    sections: dict[str, list[Question]]


class Pairs(NamedTuple):
    name: str
    pairs: list[tuple[str, str]]
    ratings: list[float]


def read_word_test(path: Path) -> Questions | Pairs:
    """Read a benchmark; a first line that begins with a colon, or has four words, means analogies."""
    lines = [(number, line.strip()) for number, line in numbered_lines(path) if line.strip()]
    first = lines[0][1]
    if first.startswith(":") or (len(first.split()) == 4 and not any(map(_rating, re.split(r"[\s,]+", first)))):
        return Questions(path.name, _sections(path, lines))
    return _pairs(path, lines)


def _sections(path: Path, lines: list[tuple[int, str]]) -> dict[str, list[Question]]:
    found: dict[str, list[Question]] = {}
    section = "questions"
    for number, line in lines:
        if line.startswith(":"):
            section = line.removeprefix(":").strip() or section
            continue
        words = line.split()
        if len(words) != 4:
            raise UserError(
                f"{path}, line {number:,}: a question has four words, such as 'Athens Greece Baghdad Iraq', and this line has "
                f"{len(words)}: {line[:60]!r}."
            )
        found.setdefault(section, []).append((words[0], words[1], words[2], words[3]))
    if not found:
        raise UserError(f"{path} has sections, but no question in them; give a file such as questions-words.txt.")
    return found


def _pairs(path: Path, lines: list[tuple[int, str]]) -> Pairs:
    pairs, ratings = list[tuple[str, str]](), list[float]()
    for number, line in lines:
        fields = [field.strip() for field in re.split("\t|,|;", line)]
        fields = fields if len(fields) > 2 else line.split()
        rating = _rating(fields[2]) if len(fields) > 2 else None
        if rating is None and number == lines[0][0]:
            continue  # the names of the columns
        if rating is None or not (fields[0] and fields[1]):
            raise UserError(
                f"{path}, line {number:,}: two words and a number are expected, such as 'tiger, cat, 7.35', and here is "
                f"{line[:60]!r}."
            )
        pairs.append((fields[0], fields[1]))
        ratings.append(rating)
    if len(pairs) < 2:
        raise UserError(f"{path} has {len(pairs)} rated pairs, and a correlation needs two at least.")
    return Pairs(path.name, pairs, ratings)


def _rating(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if abs(number) < float("inf") else None
