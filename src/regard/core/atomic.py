"""A folder is wholly there or not at all, whenever the power goes: built under a hidden name, flushed, then renamed.

Two hidden names carry the owner's process id. `.tmp-PID-RANDOM-NAME` is rubbish once its owner is gone: a folder half
built or half deleted. `.old-PID-RANDOM-NAME` is the folder that stood under NAME while its replacement moved in; a kill
between the two renames leaves only that one, so it counts as NAME until NAME stands again.

`partial_file` is for files that people ask for by name: refused before the work begins if they cannot be written.
"""

from __future__ import annotations

import errno
import io
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from regard.core.errors import UserError
from regard.core.files import create_file, draft_owner, name_os_errors, open_regular
from regard.core.terminal import print_stderr

_in_flight: set[str] = set()
"""Hidden names this process is using now. Any other with our id was left by an earlier life: containers reuse ids."""


def flush_file(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def flush_folder(folder: Path) -> None:
    """Flush the folder's entries to disk: a file's own fsync keeps its bytes, this keeps its name."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems have no such call
            raise
    finally:
        os.close(handle)


def make_folder(folder: Path) -> None:
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    flush_folder(folder.parent)


@contextmanager
def atomic_folder(final: Path) -> Iterator[Path]:
    """Yield a hidden folder to fill with flushed files; if the block succeeds, it replaces `final` in one rename."""
    with _hidden(".tmp", final) as draft, _hidden(".old", final) as retired:
        try:
            draft.mkdir()
            yield draft
            flush_folder(draft)
            _swap(draft, retired, final)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)  # what stays behind is swept later; the first error matters more
            raise


def _swap(draft: Path, retired: Path, final: Path) -> None:
    replacing = os.path.lexists(final)
    if replacing:
        final.rename(retired)
    try:
        draft.rename(final)
    except OSError:
        if replacing:
            retired.rename(final)
        raise
    flush_folder(final.parent)
    if replacing:
        discard(retired)


def discard(path: Path) -> None:
    """Delete a folder so that a kill half way leaves rubbish, never a folder that looks whole but is not."""
    with _hidden(".tmp", path) as rubbish:
        path.rename(rubbish)
        _remove(rubbish)


def list_complete(folder: Path) -> dict[str, Path]:
    """Return every name in the folder with its path: under that name, or set aside by a replacement that was interrupted."""
    entries = list(folder.iterdir()) if folder.is_dir() else []
    found = {path.name: path for path in entries if not path.name.startswith(".")}
    for path in entries:
        if path.name.startswith(".old-"):
            found.setdefault(_visible_name(path), path)
    return found


def sweep(folder: Path) -> None:
    """Delete what killed processes left half made, and put back what they had set aside; files of live processes stay."""
    for path in list(folder.iterdir()):
        if not path.name.startswith((".tmp-", ".old-")) or not _owner_is_gone(path.name):
            continue
        home = folder / _visible_name(path)
        if path.name.startswith(".old-") and not os.path.lexists(home):
            path.rename(home)
            continue
        with suppress(OSError):  # another user's rubbish must not stop our save
            _remove(path)


def sweep_drafts(folder: Path) -> None:
    """Delete the drafts of single files that killed processes left; this process must not be writing any."""
    for path in list(folder.iterdir()):
        owner = draft_owner(path.name)
        if owner is not None and (owner == os.getpid() or _is_gone(owner)):
            with suppress(OSError):
                _remove(path)


@contextmanager
def _hidden(prefix: str, path: Path) -> Iterator[Path]:
    """Yield a hidden name for `path` that no sweep of this process touches while the block runs."""
    name = f"{prefix}-{os.getpid()}-{secrets.token_hex(4)}-{_visible_name(path)}"
    _in_flight.add(name)
    try:
        yield path.with_name(name)
    finally:
        _in_flight.discard(name)


def _visible_name(path: Path) -> str:
    return path.name.split("-", 3)[-1] if path.name.startswith((".tmp-", ".old-")) else path.name


def _owner_is_gone(name: str) -> bool:
    owner = name.split("-")[1]
    if not owner.isdecimal():
        return False  # not one of our names
    if int(owner) == os.getpid():
        return name not in _in_flight
    return _is_gone(int(owner))


def _is_gone(owner: int) -> bool:
    try:
        os.kill(owner, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:
        return False  # alive, and another user's
    return False


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


@contextmanager
def explain_os_errors(doing: str, folder: Path) -> Iterator[None]:
    """Turn what the operating system refuses into a sentence that says what to do about it."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            cure = "Free some space there"
        elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            cure = "Make that folder writable, or choose another with --out,"
        else:
            cure = "Check that disk, or choose another folder with --out,"
        raise UserError(
            f"{doing} in {folder} failed: {reason}. {cure} and run the same command again; "
            "the checkpoints already there are intact."
        ) from error


def check_place(path: Path, option: str) -> None:
    """Refuse a path where no file can be written; `option` is how the person named it."""
    if path.is_dir():
        raise UserError(f"{option} {path} is a folder; give the name of a file in it.")
    if not path.parent.is_dir():
        raise UserError(f"{option} {path} cannot be written: there is no folder {path.parent}. Make it, or give another file.")
    if not os.access(path.parent, os.W_OK):
        raise UserError(f"{option} {path} cannot be written: {path.parent} is not yours to write in. Give another file.")


@contextmanager
def partial_file(path: Path, option: str) -> Iterator[IO[str]]:
    """Yield a file that gets its name when it is complete; until then the old one stays, and finished lines are in NAME.part.

    If the work is interrupted, by Ctrl-C say, the finished lines stay there, and their number is printed.
    """
    check_place(path, option)
    part = path.with_name(f"{path.name}.part")
    with name_os_errors(part):
        try:
            with io.TextIOWrapper(
                create_file(part), "utf-8", line_buffering=True
            ) as file:  # a line that is ready outlives a kill
                yield file
            part.replace(path)
        except BaseException:
            if part.is_file() and (ready := _lines(part)):
                print_stderr(f"{ready:,} line{'s' * (ready > 1)} of results {'are' if ready > 1 else 'is'} in {part}.")
            raise
        finally:
            if part.is_file() and not part.stat().st_size:
                part.unlink()


def _lines(path: Path) -> int:
    with open_regular(path) as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
