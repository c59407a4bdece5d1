"""Reading and writing files safely: only regular files are opened, reads have a bound, and no link is followed in writing.

A name in an untrusted folder may be a pipe (reading waits for ever), a device (`/dev/zero` never ends), a link that leads
out of the folder (reading discloses a secret, writing destroys a file), or an archive that opens to a thousand times its size.
Every reader of the package that opens a file by a path which a person or a file gave goes through here.
"""

from __future__ import annotations

import errno
import gzip
import json
import os
import re
import secrets
import shutil
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from io import BufferedReader, BufferedWriter
from itertools import islice
from pathlib import Path
from typing import IO, Any

from regard.core.errors import UserError

KIB, MIB, GIB = 1024, 1024**2, 1024**3

SMALL = 16 * MIB
"""The bound for settings and other small JSON; the largest config.json on the hub has some 100 kB."""

DRAFT = re.compile(r"\..+\.(\d{1,9})-[0-9a-f]{8}\.tmp")

BOMB_SIZE, BOMB_RATIO = 4 * MIB, 100
"""What opens to more than this, and to this many times its compressed size, is a bomb: text shrinks to a third or a tenth."""

KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def open_regular(path: Path, *, within: Path | None = None) -> BufferedReader:
    """Open a regular file for reading in binary; `within` is the folder that a link may not lead out of.

    The file is opened without waiting and looked at afterwards, so that nothing can be put in its place in between.
    """
    if within is not None:
        refuse_link_out(path, within)
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"{path} does not exist{_nearest_file(path)}") from None
    except OSError as error:  # ENXIO for a socket; EACCES
        raise UserError(f"{path} cannot be read: {error.strerror}. Check what it is and who may read it.") from None
    except ValueError as error:  # a NUL in the name
        raise UserError(f"{str(path)!r} is no path of a file: {error}.") from None
    _refuse_irregular(handle, path)
    return os.fdopen(handle, "rb")


def _refuse_irregular(handle: int, path: Path) -> None:
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        kind = next((name for test, name in KINDS if test(mode)), "something else")
        cure = "Name one of the files in it." if stat.S_ISDIR(mode) else "Give the path of a file."
        raise UserError(f"{path} is {kind}, but a regular file is needed. {cure}")


def read_bounded(path: Path, most: int = SMALL, *, within: Path | None = None) -> bytes:
    """Return the content of a regular file of at most `most` bytes."""
    with open_regular(path, within=within) as file:
        size = os.fstat(file.fileno()).st_size
        content = file.read(most + 1) if size <= most else b""
    if size > most or len(content) > most:
        raise UserError(f"{path} has more than {format_size(most)}, the most that is read of such a file. Is it the right file?")
    return content


def read_text(path: Path, most: int = SMALL, *, within: Path | None = None) -> str:
    try:
        return read_bounded(path, most, within=within).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text (byte {error.start + 1}). Copy it again from where it was made.") from None


def read_json(path: Path, most: int = SMALL, *, within: Path | None = None) -> Any:
    return parse_json(read_text(path, most, within=within), path)


def parse_json(text: str, path: Path) -> Any:
    """Parse JSON; `path` is where the text is from, for the error sentence."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:  # no JSON, a number of thousands of digits, nested without end
        raise UserError(f"{path} cannot be read as JSON ({str(error)[:200]}); copy it again from where it was made.") from None


class Unpacked(gzip.GzipFile):
    """A gzip file that refuses to go on when it opens to what only a bomb opens to."""

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        super().__init__(fileobj=file, mode="rb")
        self._path, self._raw = path, file

    def read(self, size: int | None = -1) -> bytes:
        if size is not None and size >= 0:
            return self._checked(super().read(size))
        return b"".join(iter(lambda: self._checked(super(Unpacked, self).read(MIB)), b""))

    def readline(self, size: int | None = -1) -> bytes:
        if size is not None and size >= 0:
            return self._checked(super().readline(size))
        parts = [b"\0"]
        while parts[-1] and not parts[-1].endswith(b"\n"):
            parts.append(self._checked(super().readline(MIB)))
        return b"".join(parts[1:])

    def _checked(self, content: bytes) -> bytes:
        refuse_bomb(self._path, self.tell(), self._raw.tell())  # so far: a larger bomb is found as soon as a small one
        return content


def refuse_bomb(path: Path, unpacked: int, packed: int) -> None:
    """Refuse a compressed file if `unpacked` bytes out of `packed` ones are more than text can give."""
    if unpacked > BOMB_SIZE and unpacked > BOMB_RATIO * packed:
        raise UserError(
            f"{path} opens to more than {BOMB_RATIO} times its size and {format_size(BOMB_SIZE)}, as text does not, so it is not "
            "read any further. If it is what you mean, unpack it and give what is in it."
        )


@contextmanager
def open_maybe_gzipped(path: Path) -> Iterator[BufferedReader | Unpacked]:
    """Open a regular file, decompressed while it is read if its name ends with .gz; damage becomes an error sentence."""
    try:
        with open_regular(path) as file:
            if path.suffix.lower() != ".gz":
                yield file
                return
            with Unpacked(path, file) as unpacked:
                yield unpacked
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(
            f"{path} is not a whole gzip file ({error}). Copy or download it again; `gzip -t` tells whether it is whole."
        ) from error


def refuse_link_out(path: Path, folder: Path) -> None:
    """Refuse a link that leads out of `folder`, unless it leads into the blobs of a hub cache, whose snapshots are links."""
    try:
        home, real = folder.resolve(), path.resolve()
    except (OSError, RuntimeError, ValueError):  # links in a circle; a NUL in the name
        raise UserError(f"{str(path)!r} is no path of a file, or a link to itself. Copy the file in its place.") from None
    allowed = [home, home.parents[1] / "blobs"] if len(home.parents) > 1 and home.parent.name == "snapshots" else [home]
    if not any(real.is_relative_to(place) for place in allowed):
        raise UserError(
            f"{path} is a link that leads out of {folder}, to {real}; it is not followed. Copy the file in its place."
        )


@contextmanager
def name_os_errors(path: Path) -> Iterator[None]:
    """Give an error of the operating system the name of the file that is written: that of a full disk has none."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def write_whole(path: Path, content: bytes | str) -> None:
    """Write a file at once, under a random name, where no link can be waiting; a link at `path` is replaced, not followed."""
    draft = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        with create_file(draft) as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        error.filename = str(path)  # the error of a full disk has no name, and the draft's means nothing to a person
        raise
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def draft_owner(name: str) -> int | None:
    """Return the id of the process whose `write_whole` made a draft of this name, or None if it is no draft."""
    found = DRAFT.fullmatch(name)
    return int(found[1]) if found else None


def create_file(path: Path) -> BufferedWriter:
    """Open a new file for writing; an old one of that name is removed first, and a link is removed, not followed."""
    path.unlink(missing_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    return os.fdopen(handle, "wb")


def open_append(path: Path) -> BufferedWriter:
    """Open a regular file for appending or locking, and create it if it does not exist."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        handle = os.open(path, flags, 0o666)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise UserError(f"{path} is a link, and nothing is written through links. Delete it; it is made again.") from None
    _refuse_irregular(handle, path)
    return os.fdopen(handle, "ab")


@contextmanager
def draft_folder(folder: Path, last: str = "") -> Iterator[Path]:
    """Yield a hidden draft folder in `folder`; if the block succeeds, its files move up, the one named `last` as the last.

    When it does not, or is interrupted, nothing is left behind: not the draft, nor a folder that was made for it.
    """
    missing = [above for above in (folder, *folder.parents) if not above.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    draft, moved = folder / f".tmp-{os.getpid()}-{secrets.token_hex(4)}-draft", list[Path]()
    try:
        draft.mkdir()
        yield draft
        for path in sorted(draft.iterdir(), key=lambda path: (path.name == last, path.name)):
            moved.append(path.rename(folder / path.name))
        draft.rmdir()
    except BaseException:
        for path in (draft, *moved):
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        for made in missing:
            with suppress(OSError):  # another process put something there
                made.rmdir()
        raise


def is_free(folder: Path) -> bool:
    """Return True if the folder does not exist or holds hidden names only, such as a killed process leaves."""
    if not os.path.lexists(folder):
        return True
    return folder.is_dir() and all(path.name.startswith(".") for path in folder.iterdir())


def format_size(size: int) -> str:
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size >= unit:
            return f"{size / unit:,.4g} {name}"
    return f"{size} bytes"


def _nearest_file(path: Path) -> str:
    if not path.parent.is_dir():
        return f", and neither does the folder {path.parent}. Check the path."
    close = get_close_matches(path.name, [other.name for other in islice(path.parent.iterdir(), 1000)], n=1)
    return f"; did you mean {close[0]!r}?" if close else "; give the path of a file."
