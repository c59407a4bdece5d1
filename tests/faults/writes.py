"""Every system call of saving, replacing, deleting and loading fails in turn, or is the last one the process makes.

Afterwards the folder must hold the state from before or the new one, whole; what was refused must have been said in one
sentence; what was reported as done must be done; and the next save must work and leave no draft behind.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.core.errors import UserError
from regard.training.checkpoint import Store
from tests.faults.states import State, newest, save, state_of
from tests.faults.system_calls import WRITES, Call, Ended, Fault, run
from tests.faults.tally import Tally, one_sentence

ERRORS = ("ENOSPC", "EIO", "EACCES", "EINTR", "EDQUOT")


@dataclass(frozen=True)
class Scene:
    """What stands before, what is done, and what may be the newest of the kind afterwards: the last, once it was done."""

    before: Sequence[tuple[str, int]]  # kind and step
    act: Callable[[Store], object]
    after: Sequence[State | None]
    kind: str = "step"


def _only(kind: str) -> Callable[[Store], object]:
    """As the loop does with the best: the new one, and none beside it."""

    def act(store: Store) -> None:
        save(store, 3, 3.5, kind)
        store.keep(kind, 1)

    return act


def _load(store: Store) -> None:
    found = store.newest("step")
    assert found is None or state_of(found) in ((1, 1.0), (2, 2.0))
    assert [state_of(checkpoint) for checkpoint in store.all("step")] in ([(1, 1.0), (2, 2.0)], [(1, 1.0)], [(2, 2.0)], [])


SCENES = {
    "first save": Scene((), lambda store: save(store, 3, 3.5), (None, (3, 3.5))),
    "save": Scene((("step", 1), ("step", 2)), lambda store: save(store, 3, 3.5), ((2, 2.0), (3, 3.5))),
    "replace": Scene((("step", 2),), lambda store: save(store, 2, 2.5), ((2, 2.0), (2, 2.5))),
    "keep": Scene((("step", 1), ("step", 2), ("step", 3)), lambda store: store.keep("step", 1), ((3, 3.0),)),
    "best": Scene((("step", 2), ("best", 1)), _only("best"), ((1, 1.0), (3, 3.5)), "best"),
    "average": Scene((("step", 2), ("average", 1)), _only("average"), ((1, 1.0), (3, 3.5)), "average"),
    "sweep": Scene((("step", 1), ("step", 2)), lambda store: save(store, 3, 3.5), ((2, 2.0), (3, 3.5))),
    "load": Scene((("step", 1), ("step", 2)), _load, ((2, 2.0),)),
}


def stage(name: str, folder: Path) -> Path:
    """The checkpoints folder as it stands before the scene."""
    store = Store(folder / "checkpoints")
    for kind, step in SCENES[name].before:
        save(store, step, float(step), kind)
    if name == "sweep":  # what two killed processes left: half a draft, and a folder set aside by a replacement that never came
        dead = _dead_process()
        shutil.copytree(store.folder / "step-00000002", store.folder / f".tmp-{dead}-ab-step-00000003")
        (store.folder / "step-00000001").rename(store.folder / f".old-{dead}-cd-step-00000001")
    return store.folder


def _dead_process() -> int:
    if not (child := os.fork()):
        os._exit(0)
    os.waitpid(child, 0)
    return child


def attempt(name: str, folder: Path, fault: Fault | None = None) -> Ended:
    def act() -> str:
        said: list[str] = []
        try:
            SCENES[name].act(Store(folder, said.append))
        except UserError as error:
            return f"refused: {error}"
        except Exception as error:
            return f"broke: {error!r}"
        return f"refused: {said[0]}" if said else "done"

    return run(act, folder, fault)


def calls(name: str, folder: Path) -> list[Call]:
    """What the scene does when nothing fails."""
    ended = attempt(name, stage(name, folder))
    assert ended.told == "done", ended
    return ended.calls


def every_fault(made: Sequence[Call]) -> Iterator[Fault]:
    """The whole grid for the calls of a scene."""
    for number, call in enumerate(made, 1):
        yield from (Fault(number, what) for what in (*ERRORS, "kill"))
        if call.name in WRITES:
            yield Fault(number, "short")
        if number % 4 == 1:
            yield Fault(number, "EIO", lasting=True)  # the disk is gone for good


def some_faults(made: Sequence[Call], stride: int, start: int = 0) -> Iterator[Fault]:
    """A share of the grid that still has every error, and kills, all along the scene."""
    grid = (*ERRORS, "kill")
    for number in range(1 + start % stride, len(made) + 1, stride):
        what = grid[(number // stride + start) % len(grid)]
        yield Fault(number, what, lasting=what == "EIO" and number % 2 == 0)


def campaign(name: str, folder: Path, faults: Sequence[Fault] | None = None) -> Tally:
    tally = Tally()
    made = calls(name, folder / "whole")
    for number, fault in enumerate(faults if faults is not None else every_fault(made)):
        place = folder / f"{number}"
        checkpoints = stage(name, place)
        ended = attempt(name, checkpoints, fault)
        if len(ended.calls) < fault.call:
            continue  # a call or two more or less: the order of a folder's listing is the file system's
        described = f"{name}, {ended.calls[fault.call - 1]}, {fault}"
        detected = ended.code == -9 or (ended.told.startswith("refused: ") and one_sentence(ended.told[9:]))
        done = ended.told == "done"
        problem = _what_is_lost(SCENES[name], checkpoints, done)
        tally.add(described, detected=detected, harmless=done, recovered=not problem, told=problem or ended.told)
        shutil.rmtree(place)
    return tally


def _what_is_lost(scene: Scene, folder: Path, done: bool) -> str:
    """Empty if the state is the one from before or the new one, and the next save works and leaves nothing behind."""
    allowed = scene.after[-1:] if done else scene.after
    state, said = newest(folder, scene.kind)
    if state not in allowed or said:
        return f"{state} is the newest, {allowed} expected; said {said}"
    store = Store(folder)
    save(store, 9, 9.0)
    if newest(folder) != ((9, 9.0), []):
        return f"after the next save {newest(folder)} is the newest"
    left = [path.name for path in folder.iterdir() if path.name.startswith(".")]
    steps = {checkpoint.step for checkpoint in store.all(scene.kind)} - {9}
    if left or (state and state[0] not in steps):
        return f"after the next save {left} are left behind and {sorted(steps)} are there"
    return ""
