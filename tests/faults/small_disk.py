"""A disk that is really full: a tmpfs of a few pages, mounted in a namespace of a child's own, so that nobody need be root."""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path

from regard.core.errors import UserError
from regard.training.checkpoint import Store
from tests.faults.states import newest, save
from tests.faults.tally import Tally, one_sentence

_NEW_USER, _NEW_MOUNTS = 0x10000000, 0x00020000
PAGE = 4096


def on_a_disk(options: str, folder: Path, action: Callable[[], str]) -> str:
    """What the action says in a child that sees a tmpfs with these options at the folder; 'no disk: ...' if that is refused."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    if not (child := os.fork()):
        try:
            told = _mounted(options, folder) or action()
        except BaseException as error:
            told = f"broke: {error!r}"
        os.write(writing, told.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        told = file.read().decode()
    os.waitpid(child, 0)
    return told


def why_not(folder: Path) -> str:
    if not sys.platform.startswith("linux"):
        return "small disks are mounted on Linux only"
    told = on_a_disk("size=64k", folder, lambda: "mounted")
    return "" if told == "mounted" else told


def _mounted(options: str, folder: Path) -> str:
    """Why it could not be mounted; empty if it was."""
    libc, user, group = ctypes.CDLL(None, use_errno=True), os.getuid(), os.getgid()
    if libc.unshare(_NEW_USER | _NEW_MOUNTS):
        return f"no disk: {os.strerror(ctypes.get_errno())}"
    for file, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
        Path(f"/proc/self/{file}").write_text(text)
    if libc.mount(b"none", os.fsencode(folder), b"tmpfs", 0, options.encode()):
        return f"no disk: {os.strerror(ctypes.get_errno())}"
    return ""


def fill_up(folder: Path, what: str, left: int, replacing: bool) -> str:
    """Save on a disk with so many pages or files left. 'refused SENTENCE' or 'saved', or what went wrong."""
    checkpoints, ballast = folder / "checkpoints", folder / "ballast"
    store = Store(checkpoints)
    save(store, 2, 2.0)
    ballast.mkdir()
    disk = os.statvfs(folder)
    if what == "pages":
        (ballast / "much").write_bytes(b"x" * PAGE * (disk.f_bavail - left))
    else:
        for number in range(disk.f_favail - left):
            (ballast / f"{number}").touch()
    target = (2, 2.5) if replacing else (3, 3.5)
    try:
        save(store, *target)
        told, expected = "saved", target
    except UserError as error:
        told, expected = f"refused {error}", (2, 2.0)
    if newest(checkpoints) != (expected, []):
        return f"{told}, but the newest is {newest(checkpoints)}"
    shutil.rmtree(ballast)
    save(store, 9, 9.0)
    if newest(checkpoints) != ((9, 9.0), []) or any(path.name.startswith(".") for path in checkpoints.iterdir()):
        return f"{told}, but the next save left {sorted(path.name for path in checkpoints.iterdir())}"
    return told


def campaign(folder: Path, room: range) -> Tally:
    """So many pages or files left, down to none: the save ends at a different call each time."""
    tally = Tally()
    for replacing, what, left in product((False, True), ("pages", "files"), room):
        action = partial(fill_up, folder, what, left, replacing)
        told = on_a_disk("size=256k,nr_inodes=60", folder, action)
        refused = told.startswith("refused ") and one_sentence(told[8:])
        tally.add(
            f"{left} {what} left, {'replacing' if replacing else 'saving'}",
            detected=refused and "No space left on device" in told and "Free some space" in told,
            harmless=told == "saved",
            recovered=refused or told == "saved",
            told=told,
        )
    return tally
