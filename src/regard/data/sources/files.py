"""Lines of UTF-8 text from a file, plain or gzipped, with the file and the line named when something is wrong with it.

Only "\n" (or "\r\n") ends a line: characters such as U+2028 are part of the text, or two aligned files would drift
apart. A byte order mark at the start is dropped, and so are empty lines at the end of the file. What is held in memory is one
line, whose length is bounded, however the file is made.

`archive_members` reads the files of a .tar archive, plain or gzipped, in order, without unpacking to disk and with a size limit.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from io import BufferedIOBase
from itertools import chain
from pathlib import Path
from tarfile import TarFile, TarInfo

from regard.core.errors import UserError
from regard.core.files import MIB, Unpacked, format_size, open_maybe_gzipped, open_regular

UTF8_MARK = b"\xef\xbb\xbf"
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
BLOCK = MIB
LONGEST = 16 * MIB  # bytes of a line: the longest books have some five million characters
JSON_LINES = (".jsonl", ".ndjson")
BLANKS = 100_000  # runs of lines of white space that are held back


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (1, first line), (2, second line), ... without line ends."""
    given = 0  # up to this line
    blanks: list[tuple[str, int]] = []  # and how often each comes: held back until a line with text shows that the file goes on
    for number, content in enumerate(_lines(path), start=1):
        line = ""
        if content:
            _refuse_nul(content, path, number)
            try:
                line = content.decode().removesuffix("\r")
            except UnicodeDecodeError as error:
                raise _not_utf8(path, number, 0, error) from error
        if not line.strip():
            _count(blanks, line, path, number)
            continue
        for blank, times in blanks:
            yield from ((n, blank) for n in range(given + 1, given + times + 1))
            given += times
        blanks.clear()
        given = number
        yield number, line
    if not given:
        raise UserError(f"{path} is empty: there is no text in it. Give a file with one example on each line.")


def _count(blanks: list[tuple[str, int]], line: str, path: Path, number: int) -> None:
    """Add a blank line to `blanks`, where equal ones are stored as one with a count: millions of them take no memory."""
    if blanks and blanks[-1][0] == line:
        blanks[-1] = (line, blanks[-1][1] + 1)
    elif len(blanks) < BLANKS:
        blanks.append((line, 1))
    else:
        raise UserError(f"{path}, line {number:,}: this and the many lines before it are nothing but white space. Take them out.")


def _lines(path: Path) -> Iterator[bytes]:
    """Yield lines without their ends, read in blocks, which is faster than `readline`; a line that is too long is refused."""
    number, begun = 1, b""
    for content in _contents(path, lambda file: file.read(BLOCK)):
        *whole, begun = (begun + content).split(b"\n")
        yield from whole
        number += len(whole)
        if len(begun) > LONGEST:
            raise UserError(
                f"{path}, line {number:,}: this line is longer than {format_size(LONGEST)}, the most that is read of one. Is it "
                "text? Put line ends between the examples."
            )
    if begun:
        yield begun


def text_blocks(path: Path, size: int) -> Iterator[str]:
    """Yield the text in blocks of whole lines of about `size` bytes; only a longer line is cut."""
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


def suffix_of(path: Path) -> str:
    """Return the suffix in small letters, that before .gz where a file is gzipped."""
    return Path(path.name.lower().removesuffix(".gz")).suffix


def must_be_file(path: Path) -> None:
    """Refuse a path that is no file, before any work is done."""
    open_regular(path).close()


def _contents(path: Path, read: Callable[[BufferedIOBase], bytes]) -> Iterator[bytes]:
    """Yield what `read` returns, until the end of the file."""
    try:
        with open_maybe_gzipped(path) as file:
            for number, content in enumerate(iter(partial(read, file), b"")):
                if not number and content.startswith(UTF16_MARKS):
                    raise UserError(f"{path}, line 1: this is UTF-16, but UTF-8 is needed. Type: iconv -f UTF-16 -t UTF-8 {path}")
                yield content if number else content.removeprefix(UTF8_MARK)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}. Check who may read it.") from error


def _refuse_nul(content: bytes, path: Path, number: int) -> None:
    """Refuse a NUL byte; `number` is the line that the content starts in."""
    if (place := content.find(b"\0")) >= 0:
        number += content.count(b"\n", 0, place)
        raise UserError(
            f"{path}, line {number}: a NUL byte, so this is not plain text (UTF-16, or a "
            "binary file?). Give UTF-8 text; iconv can convert it."
        )


def _not_utf8(path: Path, number: int, before: int, error: UnicodeDecodeError) -> UserError:
    """Return the error for bytes that are not UTF-8, which start in line `number`, after this many bytes of it."""
    good = error.object[: error.start]
    byte = len(good) - good.rfind(b"\n") if b"\n" in good else before + len(good) + 1
    number += good.count(b"\n")
    return UserError(
        f"{path}, line {number}, byte {byte}: 0x{error.object[error.start]:02X} is not UTF-8. If the file is "
        f"in an older encoding, convert it, for instance: iconv -f LATIN1 -t UTF-8 {path}"
    )


ARCHIVES = (".tar", ".tar.gz", ".tgz")
GZIPPED = b"\x1f\x8b"


def is_archive(path: Path) -> bool:
    return path.name.lower().endswith(ARCHIVES)


def archive_members(path: Path, wanted: Callable[[str], bool], largest: int) -> Iterator[tuple[str, bytes]]:
    """Name and content of each file whose name is wanted. Links, devices and what else an archive may hold are passed over."""
    with _opened(path) as archive:
        for member in _members(path, archive):
            if not member.isreg() or not wanted(member.name):
                continue
            if member.size > largest or member.issparse():
                raise UserError(
                    f"{path}: {member.name} has more than {format_size(largest)} or is a sparse file, and is not read. Remove it."
                )
            with _told(path):
                content = archive.extractfile(member)
                found = content.read(largest) if content else b""
            yield member.name, found


def _members(path: Path, archive: TarFile) -> Iterator[TarInfo]:
    while True:
        with _told(path):
            member = archive.next()
        if member is None:
            return
        archive.members.clear()  # type: ignore[attr-defined]  # it would keep all it has met, and there may be millions
        yield member


@contextmanager
def _opened(path: Path) -> Iterator[TarFile]:
    """Open an archive; a gzipped one is read forwards only, so that all decompressed bytes are counted."""
    with open_regular(path) as file:
        gzipped = file.peek(2)[:2] == GZIPPED
        with _told(path):
            stream = Unpacked(path, file) if gzipped else file
            archive = TarFile.open(fileobj=stream, mode="r|" if gzipped else "r:", bufsize=MIB)
        with archive:
            yield archive


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # `tarfile` raises what the bytes lead it to: its own errors, those of zlib, RecursionError, ...
        raise UserError(f"{path} is not a whole archive ({error}). Copy or download it again.") from None
