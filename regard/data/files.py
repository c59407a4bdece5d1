"""Lines of UTF-8 text from a file, plain or gzipped, with the file and the line named when something is wrong with it.

Only "\\n" (or "\\r\\n") ends a line: characters such as U+2028 are part of the text, or two aligned files would drift
apart. A byte order mark at the start is dropped, and so are empty lines at the end of the file.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path

from regard.errors import UserError

UTF8_MARK = b"\xef\xbb\xbf"
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """(1, first line), (2, second line), ... without line ends."""
    found = False
    empty: list[tuple[int, str]] = []  # held back until a line with text shows that the file goes on
    for number, content in enumerate(_byte_lines(path), start=1):
        line = _decode(content, path, number)
        if not line.strip():
            empty.append((number, line))
            continue
        found = True
        yield from empty
        empty.clear()
        yield number, line
    if not found:
        raise UserError(f"{path} is empty: there is no text in it. Give a file with one example on each line.")


def must_be_file(path: Path) -> None:
    if path.is_dir():
        raise UserError(f"{path} is a folder, but a file is needed. Name one of the files in it.")
    if path.exists():
        return
    if not path.parent.is_dir():
        raise UserError(f"{path} does not exist, and neither does the folder {path.parent}. Check the path.")
    close = get_close_matches(path.name, [other.name for other in path.parent.iterdir()], n=1)
    raise UserError(f"{path} does not exist" + (f"; did you mean {close[0]!r}?" if close else "; give the path of a file."))


def _byte_lines(path: Path) -> Iterator[bytes]:
    must_be_file(path)
    try:
        with gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb") as file:
            for number, line in enumerate(file):
                yield line if number else _without_mark(line, path)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(
            f"{path} is not a whole gzip file ({error}). Copy or download it again; `gzip -t` tells whether it is whole."
        ) from error
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}. Check who may read it.") from error


def _without_mark(line: bytes, path: Path) -> bytes:
    if line.startswith(UTF16_MARKS):
        raise UserError(f"{path}, line 1: this is UTF-16, but UTF-8 is needed. Type: iconv -f UTF-16 -t UTF-8 {path}")
    return line.removeprefix(UTF8_MARK)


def _decode(content: bytes, path: Path, number: int) -> str:
    if b"\0" in content:
        raise UserError(
            f"{path}, line {number}: a NUL byte, so this is not plain text (UTF-16, or a binary file?). "
            "Give UTF-8 text; iconv can convert it."
        )
    try:
        return content.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}, line {number}, byte {error.start + 1}: 0x{content[error.start]:02X} is not UTF-8. If the file is in an "
            f"older encoding, convert it, for instance: iconv -f LATIN1 -t UTF-8 {path}"
        ) from error
