"""Lines of UTF-8 text from a file, plain or gzipped, with the file and the line named when something is wrong with it.

Only "\\n" (or "\\r\\n") ends a line: characters such as U+2028 are part of the text, or two aligned files would drift
apart. A byte order mark at the start is dropped, and so are empty lines at the end of the file.
"""

from __future__ import annotations

import codecs
import gzip
import zlib
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from functools import partial
from io import BufferedIOBase
from itertools import chain
from pathlib import Path

from regard.errors import UserError

UTF8_MARK = b"\xef\xbb\xbf"
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """(1, first line), (2, second line), ... without line ends."""
    found = False
    empty: list[tuple[int, str]] = []  # held back until a line with text shows that the file goes on
    for number, content in enumerate(_contents(path, lambda file: file.readline()), start=1):
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


def text_blocks(path: Path, size: int) -> Iterator[str]:
    """The text as it stands, in blocks of whole lines of about `size` bytes; only a longer line is cut."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    number, done = 1, 0  # the line, and how many of its bytes have been decoded
    for content in chain(_contents(path, lambda file: file.read(size) + file.readline(size)), [b""]):
        _refuse_nul(content, path, number)
        waiting = decoder.getstate()[0]  # bytes of a character that was cut in two
        try:
            yield decoder.decode(content, final=not content).replace("\r\n", "\n")
        except UnicodeDecodeError as error:
            raise _not_utf8(path, number, done - len(waiting), error) from error
        number += content.count(b"\n")
        done = len(content) - content.rfind(b"\n") - 1 if b"\n" in content else done + len(content)


def must_be_file(path: Path) -> None:
    if path.is_dir():
        raise UserError(f"{path} is a folder, but a file is needed. Name one of the files in it.")
    if path.exists():
        return
    if not path.parent.is_dir():
        raise UserError(f"{path} does not exist, and neither does the folder {path.parent}. Check the path.")
    close = get_close_matches(path.name, [other.name for other in path.parent.iterdir()], n=1)
    raise UserError(f"{path} does not exist" + (f"; did you mean {close[0]!r}?" if close else "; give the path of a file."))


def _contents(path: Path, read: Callable[[BufferedIOBase], bytes]) -> Iterator[bytes]:
    """What `read` takes from the file, again and again, up to its end."""
    must_be_file(path)
    try:
        with gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb") as file:
            for number, content in enumerate(iter(partial(read, file), b"")):
                yield content if number else _without_mark(content, path)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(
            f"{path} is not a whole gzip file ({error}). Copy or download it again; `gzip -t` tells whether it is whole."
        ) from error
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}. Check who may read it.") from error


def _without_mark(content: bytes, path: Path) -> bytes:
    if content.startswith(UTF16_MARKS):
        raise UserError(f"{path}, line 1: this is UTF-16, but UTF-8 is needed. Type: iconv -f UTF-16 -t UTF-8 {path}")
    return content.removeprefix(UTF8_MARK)


def _decode(content: bytes, path: Path, number: int) -> str:
    _refuse_nul(content, path, number)
    try:
        return content.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise _not_utf8(path, number, 0, error) from error


def _refuse_nul(content: bytes, path: Path, number: int) -> None:
    """`number` is the line that the content starts in."""
    if (place := content.find(b"\0")) >= 0:
        number += content.count(b"\n", 0, place)
        raise UserError(
            f"{path}, line {number}: a NUL byte, so this is not plain text (UTF-16, or a "
            "binary file?). Give UTF-8 text; iconv can convert it."
        )


def _not_utf8(path: Path, number: int, before: int, error: UnicodeDecodeError) -> UserError:
    """What could not be decoded starts in line `number`, of which so many bytes came before."""
    good = error.object[: error.start]
    byte = len(good) - good.rfind(b"\n") if b"\n" in good else before + len(good) + 1
    number += good.count(b"\n")
    return UserError(
        f"{path}, line {number}, byte {byte}: 0x{error.object[error.start]:02X} is not UTF-8. If the file is "
        f"in an older encoding, convert it, for instance: iconv -f LATIN1 -t UTF-8 {path}"
    )
