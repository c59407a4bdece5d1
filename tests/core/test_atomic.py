"""Killed before every change to the disk in a save, a replacement and a deletion, with and without losing the cache of the disk.

Each case runs in a forked child that leaves through `os._exit` at its n-th event, so nothing cleans up after it. With
`power`, every file that was not yet fsynced is cut in half first: what a real power cut may do to it. The fsync itself
is only noted, because a fork cannot lose what the kernel holds, and waiting for the disk would teach us nothing.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
import torch

from regard.core import atomic
from regard.training.checkpoint import Store

pytestmark = pytest.mark.forks
KILLED = 137
ACTIONS: dict[str, Callable[[Store], object]] = {
    "save": lambda store: save(store, 3, 3.5),
    "replace": lambda store: save(store, 2, 2.5),
    "keep": lambda store: store.keep("step", 1),
}


def save(store: Store, step: int, value: float) -> Path:
    tensors = {"model": {"w": torch.full((600,), value)}, "optimizer": {"0.step": torch.tensor(value)}}
    return store.save("step", step, tensors, {"value": value})


def value_of_newest(folder: Path) -> tuple[int, float]:
    """Step and value of the newest good one, after checking that all its parts were saved together."""
    said: list[str] = []
    store = Store(folder, said.append)
    checkpoint = store.newest("step")
    assert store.all("step")[-1:] == [checkpoint]
    assert said == []  # a crash must leave no visible folder that is damaged
    assert checkpoint is not None
    value = checkpoint.state["value"]
    assert torch.equal(checkpoint.tensors("model")["w"], torch.full((600,), value))
    assert torch.equal(checkpoint.tensors("optimizer")["0.step"], torch.tensor(value))
    return checkpoint.step, value


def dies_at(event: int, folder: Path, action: Callable[[Store], object], power: bool) -> bool:
    """Whether the action had that many events."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            _die_at(event, folder, power)
            action(Store(folder))
            code = 0
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, KILLED)
    return code == KILLED


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda handle: None)


def _die_at(event: int, folder: Path, power: bool) -> None:
    left = [event]
    flushed = {path.stat().st_ino for path in folder.rglob("*")}

    def die() -> NoReturn:
        left[0] = sys.maxsize
        if power:
            for path in folder.rglob("*"):
                if path.is_file() and path.stat().st_ino not in flushed:
                    os.truncate(path, path.stat().st_size // 2)
        os._exit(KILLED)

    def count() -> None:
        left[0] -= 1
        if left[0] == 0:
            die()

    def noted_fsync(handle: int) -> None:
        count()
        flushed.add(os.fstat(handle).st_ino)

    setattr(os, "fsync", noted_fsync)  # noqa: B010
    sys.addaudithook(lambda name, arguments: count() if _changes(name, arguments) else None)


def _changes(name: str, arguments: tuple[Any, ...]) -> bool:
    """Whether the event may change what is on the disk: to die before a file is read is to die before what comes next."""
    if name == "open":
        return bool(arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
    return name.startswith("os.") and name not in (
        "os.listdir",
        "os.scandir",
        "os.walk",
        "os.fwalk",
        "os.getxattr",
        "os.listxattr",
    )


@pytest.mark.parametrize("power", [False, True], ids=["kill", "power cut"])
@pytest.mark.parametrize("name", ACTIONS)
def test_killed_at_every_event(tmp_path: Path, name: str, power: bool) -> None:
    event, events_seen, endings = 0, True, set()
    while events_seen:
        event += 1
        folder = tmp_path / f"{event}" / "checkpoints"
        store = Store(folder)
        for step in (2,) if name == "replace" else (1, 2):  # nothing older to fall back on while it is replaced
            save(store, step, float(step))
        events_seen = dies_at(event, folder, ACTIONS[name], power)
        endings.add(value_of_newest(folder))
        save(store, 4, 4.0)
        assert value_of_newest(folder) == (4, 4.0)
        assert 2 in [checkpoint.step for checkpoint in store.all("step")]  # no action may cost us this one
        assert not list(folder.glob(".*"))  # swept
    done = {"save": (3, 3.5), "replace": (2, 2.5), "keep": (2, 2.0)}[name]
    assert endings == {(2, 2.0), done}
    assert event > 5


def test_sigkill_at_random_moments(tmp_path: Path) -> None:
    folder, chance = tmp_path / "checkpoints", random.Random(0)
    save(Store(folder), 0, 0.0)
    last = 0
    for _ in range(12):
        saved, report = os.pipe()
        child = os.fork()
        if child == 0:
            store = Store(folder)
            for step in range(last, last + 1000):
                save(store, step, float(step))
                os.write(report, b".")
                store.keep("step", 2)
            os._exit(0)
        for _ in range(chance.randint(1, 8)):
            os.read(saved, 1)
        time.sleep(chance.uniform(0, 0.004))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(saved)
        os.close(report)
        step, value = value_of_newest(folder)
        assert step >= last
        assert value == step
        last = step
    assert last > 0


def test_a_replaced_folder_counts_until_its_replacement_stands(tmp_path: Path) -> None:
    """The moment between the two renames, by hand, with an owner that still lives."""
    store = Store(tmp_path)
    path = save(store, 2, 2.0)
    aside = tmp_path / f".old-{os.getppid()}-abcd-{path.name}"
    path.rename(aside)
    assert value_of_newest(tmp_path) == (2, 2.0)
    save(store, 3, 3.0)
    assert aside.exists()  # its owner is alive, so it is not ours to move
    assert [checkpoint.step for checkpoint in store.all("step")] == [2, 3]


def test_sweep_takes_what_dead_processes_left_and_nothing_else(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    gone = [f".tmp-{child}-a-step-00000001", f".old-{child}-b-step-00000002", f".tmp-{os.getpid()}-c-step-00000001"]
    live = [f".tmp-{os.getppid()}-a-step-00000001", ".old-1-b-step-00000002", ".tmp-notes", ".cache"]
    store = Store(tmp_path)
    save(store, 2, 2.0)
    for name in gone + live:
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("x")
    with atomic.atomic_folder(tmp_path / "step-00000009") as draft:
        save(store, 3, 3.0)
        assert draft.exists()  # ours, and in use
    assert {path.name for path in tmp_path.glob(".*")} == set(live)


def test_a_failed_rename_puts_the_old_folder_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    save(store, 2, 2.0)
    rename = Path.rename

    def stubborn(self: Path, target: Path) -> Path:
        if self.name.startswith(".tmp-"):
            raise OSError(5, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", stubborn)
    with pytest.raises(Exception, match="Input/output error"):
        save(store, 2, 2.5)
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000002"]
    assert value_of_newest(tmp_path) == (2, 2.0)
