"""Read documents: from text files, folders, globs, JSON lines, the hub, or the built-in text.

    "book.txt"                      one document; a line that says <|endoftext|> and nothing else ends it, and the next begins
    "books"                         a folder: every .txt, .md, .jsonl and .ndjson file in and below it, sorted by name
    "books/*.txt"                   a glob, sorted by name; ** stands for folders of any depth
    "posts.jsonl"                   one document a line, in the column "text" unless another is given (.ndjson too)
    "builtin:python-reference/train" needs no network: the language reference of the Python this runs on
    "hf:NAME@CONFIG:SPLIT"          `datasets` opens NAME, one document a row; @CONFIG and :SPLIT (train) may be left out

Every file may be gzipped (.gz), and several of these may be given, to be read one after the other. Documents are taken as they
stand, but for line ends (always "\n") and a byte order mark; what is nothing but white space is no document. A
document of any size is read in parts that fit in memory, cut only where every tokenizer cuts too (`text/kinds.cut_long`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from glob import glob, has_magic
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from regard.core.errors import UserError, nearest
from regard.data.builtin import python_reference
from regard.data.sources.files import JSON_LINES, must_be_file, suffix_of, text_blocks
from regard.data.sources.records import hub_records, json_records, text_of
from regard.text.kinds import LONGEST, cut_long

BUILTIN = {"python-reference": python_reference}
COLUMN = "text"
IN_FOLDERS = (".txt", ".md", *JSON_LINES)
DOCUMENT_END = re.compile(r"^<\|endoftext\|>(?:\n|\Z)", re.MULTILINE)
BLOCK = 2**16  # bytes of a file at a time
CHOOSE = "data.column=NAME"


def documents(where: tuple[str, ...], column: str | None = None) -> Iterator[str]:
    """Yield every document as one text."""
    held: list[str] = []
    for part in parts(where, column):
        held.append(part.text)
        if part.ends:
            yield "".join(held)
            held.clear()


def parts(where: tuple[str, ...], column: str | None = None) -> Iterator[Part]:
    """Yield every document in parts, so that one of many gigabytes can be read too."""
    if not where:
        raise UserError("There is no text to read: name a file, a folder, a glob, or hf:NAME.")
    for entry in where:
        found = False
        for part in _parts(entry, column or COLUMN):
            found = True
            yield part
        if not found:
            raise UserError(f"{entry} is empty: there is no text in it. Give a file or a folder with text.")


def files(entry: str) -> list[Path]:
    """Return the files that are read for this entry: none for a built-in text or the hub."""
    if entry.startswith(("builtin:", "hf:")):
        return []
    path = Path(entry).expanduser()
    if path.is_dir():
        return _in_folder(path)
    if not has_magic(entry) or path.exists():
        must_be_file(path)
        return [path]
    matches = map(Path, sorted(glob(str(path), recursive=True)))  # noqa: PTH207  (Path.glob refuses some patterns)
    found = [match for match in matches if match.is_file()]
    if not found:
        raise UserError(f"{path} matches no file. Check the path; in a shell, put it in quotes.")
    return found


def _in_folder(folder: Path) -> list[Path]:
    found = [path for path in sorted(folder.rglob("*")) if path.is_file() and "/." not in f"/{path.relative_to(folder)}"]
    texts = [path for path in found if suffix_of(path) in IN_FOLDERS]
    if not texts:
        others = sorted({suffix_of(path) for path in found} - {""})
        cure = f"name others by a glob, such as {folder / '*'}{others[0]}" if others else "name a folder with text in it"
        raise UserError(
            f"{folder} is a folder without {', '.join(IN_FOLDERS)} files (or .gz of them): put some there, or {cure}."
        )
    return texts


def _parts(entry: str, column: str) -> Iterator[Part]:
    if entry.startswith("builtin:"):
        name, _, split = entry.removeprefix("builtin:").partition("/")
        if name not in BUILTIN:
            raise UserError(f"There is no built-in text {name!r}{nearest(name, BUILTIN)}")
        if not split:
            raise UserError(f"{entry} lacks a split. Type builtin:{name}/train, or /valid, or /test.")
        texts = iter(BUILTIN[name](split))
    elif entry.startswith("hf:"):
        texts = (text_of(record, column, CHOOSE) for record in hub_records(entry))
    else:
        for path in files(entry):
            yield from _from_file(path, column)
        return
    for text in texts:
        yield from in_parts([text])


def _from_file(path: Path, column: str) -> Iterator[Part]:
    if suffix_of(path) in JSON_LINES:
        for record in json_records(path, [column]):
            yield from in_parts([text_of(record, column, CHOOSE)])
        return
    for at_end, texts in groupby(_texts_and_ends(path), lambda text: text is None):
        if not at_end:
            yield from in_parts(text for text in texts if text is not None)


def _texts_and_ends(path: Path) -> Iterator[str | None]:
    """Yield the text of a file in blocks, and None where a document ends."""
    for block in text_blocks(path, BLOCK):
        for number, text in enumerate(DOCUMENT_END.split(block)):
            if number:
                yield None
            yield text


class Part(NamedTuple):
    text: str
    ends: bool  # the last of its document


def in_parts(texts: Iterable[str], longest: int = LONGEST) -> Iterator[Part]:
    """Yield one document, which comes in texts of any size, in parts; nothing if it is all white space."""
    held: list[str] = []
    size, begun = 0, False
    for text in texts:
        held.append(text)
        size += len(text)
        if size <= longest:
            continue
        *whole, rest = cut_long("".join(held), longest)
        yield from (Part(text, ends=False) for text in whole)
        held, size, begun = [rest], len(rest), True
    last = "".join(held)
    if begun or last.strip():
        yield Part(last, ends=True)
