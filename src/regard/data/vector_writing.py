"""Word vectors written as others read them; what the kinds of files are is told in `word_vectors`."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from regard.data.word_vectors import WordVectors
from regard.errors import UserError, nearest
from regard.files import create

ENDS = set(" \t\n\r\v\f")  # of a word, in these files


def write_vectors(path: Path, vectors: WordVectors, kind: str) -> None:
    """Whole or not at all, as one of KINDS; gzipped where the name ends with .gz."""
    if kind not in KINDS:
        raise UserError(f"--to {kind} is not a format{nearest(kind, KINDS)}")
    for word in vectors.words:
        if not word or set(word) & ENDS:
            raise UserError(f"the word {word!r} has a space in it, and these files end words there; take it out first.")
    part = path.with_name(f".{path.name}.part")
    with create(part) as raw, gzip.GzipFile(fileobj=raw, mode="wb") if path.suffix == ".gz" else nullcontext(raw) as file:
        KINDS[kind](file, vectors)
    part.replace(path)


def _write_text(file: Any, vectors: WordVectors) -> None:
    _write_header(file, vectors)
    _write_lines(file, vectors)


def _write_lines(file: Any, vectors: WordVectors) -> None:
    for word, vector in zip(vectors.words, vectors.vectors_VD.astype(np.float32)):
        file.write(f"{word} {' '.join(vector.astype(str))}\n".encode())  # as few digits as bring back the same number


def _write_binary(file: Any, vectors: WordVectors) -> None:
    _write_header(file, vectors)
    for word, vector in zip(vectors.words, vectors.vectors_VD.astype("<f4")):
        file.write(word.encode() + b" " + vector.tobytes() + b"\n")


def _write_header(file: Any, vectors: WordVectors) -> None:
    file.write(f"{len(vectors)} {vectors.width}\n".encode())


KINDS: dict[str, Callable[[Any, WordVectors], None]] = {
    "word2vec": _write_text,
    "word2vec-binary": _write_binary,
    "glove": _write_lines,
}
FILES = {"word2vec": "vectors.vec", "word2vec-binary": "vectors.bin", "glove": "vectors.txt"}  # by what each is mostly called
