"""Whatever can happen to a file: cut, grown, flipped, emptied, lost, swapped, replaced, closed to us. Each must be seen."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from regard.training.checkpoint import Store
from tests.faults.states import FILES, newest, save
from tests.faults.tally import Tally, one_sentence

Damage = Callable[[Path], object]
NOBODY = 65534


def flip(offset: float, bit: int) -> Damage:
    """One bit, at a share of the file's length."""

    def change(path: Path) -> None:
        content = bytearray(path.read_bytes())
        content[int(offset * len(content))] ^= 1 << bit
        path.write_bytes(content)

    return change


def _replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _replace_by_link(path: Path) -> None:
    elsewhere = path.parent.parent / f"elsewhere-{path.name}"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


def _replace_by_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _cut(share: float) -> Damage:
    return lambda path: os.truncate(path, int(path.stat().st_size * share))


def file_damages(flips: int, seed: int = 0) -> dict[str, Damage]:
    """What can be done to a file by itself."""
    chance = random.Random(seed)
    places = [((n + chance.random()) / flips, chance.randrange(8)) for n in range(flips)]
    return {
        **{f"flip bit {bit} at {100 * where:.1f} %": flip(where, bit) for where, bit in places},
        **{f"cut to {share:.0%}": _cut(share) for share in (0.0, 0.01, 0.25, 0.5, 0.75, 0.99)},
        "cut by a byte": lambda path: os.truncate(path, path.stat().st_size - 1),
        "a byte more": lambda path: path.write_bytes(path.read_bytes() + b"\n"),
        "a page more": lambda path: path.write_bytes(path.read_bytes() + bytes(4096)),
        "written twice": lambda path: path.write_bytes(path.read_bytes() * 2),
        "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
        "garbage": lambda path: path.write_bytes(random.Random(1).randbytes(path.stat().st_size)),
        "lost": Path.unlink,
        "a folder": _replace_by_folder,
        "closed to us": lambda path: path.chmod(0),
    }


def checkpoint_damages(name: str, flips: int) -> dict[str, Damage]:
    """What can be done to one file of the newest of two checkpoints."""
    older = [path for path in FILES if path != name]
    return {
        **file_damages(flips),
        "a link": _replace_by_link,
        "a pipe": _replace_by_pipe,
        "of another step": lambda path: shutil.copy(path.parent.parent / "step-00000001" / path.name, path),
        **{f"swapped with {other}": _swap(other) for other in older},
    }


def _swap(other: str) -> Damage:
    def swap(path: Path) -> None:
        aside = path.with_name("aside")
        path.rename(aside)
        (path.parent / other).rename(path)
        aside.rename(path.parent / other)

    return swap


def _replace(how: Callable[[Path], object]) -> Damage:
    def change(path: Path) -> None:
        shutil.rmtree(path)
        how(path)

    return change


FOLDER_DAMAGES: dict[str, Damage] = {
    "another step under its name": _replace(lambda path: shutil.copytree(path.with_name("step-00000001"), path)),
    "a file too many": lambda path: (path / "notes.txt").write_text("x"),
    "empty": _replace(Path.mkdir),
    "a file": _replace(lambda path: path.write_text("x")),
    "a link to another": _replace(lambda path: path.symlink_to(path.with_name("step-00000001"))),
    "closed to us": lambda path: path.chmod(0),
}


@contextmanager
def not_root() -> Iterator[None]:
    """For root nothing is closed."""
    if os.geteuid():
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def campaign(folder: Path, flips: int) -> Tally:
    """Every file of the newest checkpoint, every damage: said in one sentence, and the one before is used and kept."""
    tally = Tally()
    whole = folder / "whole"
    for step in (1, 2):
        save(Store(whole), step, float(step))
    cases = [(f"{name}: {what}", name, damage) for name in FILES for what, damage in checkpoint_damages(name, flips).items()]
    cases += [(f"folder: {what}", "", damage) for what, damage in FOLDER_DAMAGES.items()]
    for what, name, damage in cases:
        place = shutil.copytree(whole, folder / "damaged")
        damage(place / "step-00000002" / name)
        with not_root():
            state, said = newest(place)
        detected = len(said) == 1 and one_sentence(said[0]) and "step-00000002 is damaged" in said[0]
        store = Store(place, said.append)
        store.keep("step", 1)  # must not count on the damaged one
        kept, _ = newest(place)
        save(store, 3, 3.0)
        recovered = state == (1, 1.0) and kept in ((1, 1.0), (2, 2.0)) and newest(place)[0] == (3, 3.0)
        tally.add(what, detected=detected, recovered=recovered, told=f"{state} {said} {kept}")
        _open_again(place)
        shutil.rmtree(place)
    return tally


def _open_again(place: Path) -> None:
    path = place / "step-00000002"
    if path.is_dir() and not path.is_symlink():
        path.chmod(0o700)
