"""A folder is wholly there or not at all, whenever the power goes: built under a hidden name, flushed, then renamed.

Two hidden names carry the owner's process id. `.tmp-PID-RANDOM-NAME` is rubbish once its owner is gone: a folder half
built or half deleted. `.old-PID-RANDOM-NAME` is the folder that stood under NAME while its replacement moved in; a kill
between the two renames leaves only that one, so it counts as NAME until NAME stands again.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from regard.errors import UserError
from regard.files import draft_owner

_in_flight: set[str] = set()
"""Hidden names this process is using now. Any other with our id was left by an earlier life: containers reuse ids."""


def flush_file(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def flush_folder(folder: Path) -> None:
    """A file's own fsync keeps its bytes; this keeps its name."""
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
def building(final: Path) -> Iterator[Path]:
    """A hidden folder to fill with flushed files; when the block ends well it takes the name and place of `final`."""
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


def standing(folder: Path) -> dict[str, Path]:
    """Every name in the folder and where it is: under that name, or set aside by a replacement that never came."""
    entries = list(folder.iterdir()) if folder.is_dir() else []
    found = {path.name: path for path in entries if not path.name.startswith(".")}
    for path in entries:
        if path.name.startswith(".old-"):
            found.setdefault(_visible_name(path), path)
    return found


def sweep(folder: Path) -> None:
    """Clear what killed processes left: delete rubbish, put back what was set aside. A live process keeps its own."""
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
    """Clear the drafts of single files that killed processes left. This process must not be writing any."""
    for path in list(folder.iterdir()):
        owner = draft_owner(path.name)
        if owner is not None and (owner == os.getpid() or _is_gone(owner)):
            with suppress(OSError):
                _remove(path)


@contextmanager
def _hidden(prefix: str, path: Path) -> Iterator[Path]:
    """A hidden name for `path` that no sweep of this process touches while the block runs."""
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
def explained(doing: str, folder: Path) -> Iterator[None]:
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
