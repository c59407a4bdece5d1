"""The files of a .tar archive, plain or gzipped, one after the other: none is unpacked to disk, none is larger than it may be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tarfile import TarFile, TarInfo

from regard.errors import UserError
from regard.files import MIB, Unpacked, open_regular, told_size

ARCHIVES = (".tar", ".tar.gz", ".tgz")
GZIPPED = b"\x1f\x8b"


def is_archive(path: Path) -> bool:
    return path.name.lower().endswith(ARCHIVES)


def archived(path: Path, wanted: Callable[[str], bool], largest: int) -> Iterator[tuple[str, bytes]]:
    """Name and content of each file whose name is wanted. Links, devices and what else an archive may hold are passed over."""
    with _opened(path) as archive:
        for member in _members(path, archive):
            if not member.isreg() or not wanted(member.name):
                continue
            if member.size > largest or member.issparse():
                raise UserError(
                    f"{path}: {member.name} has more than {told_size(largest)} or is full of holes, and is not read. Take it out."
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
    """A gzipped one is read from its beginning to its end only, so that all that is unpacked is counted."""
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
