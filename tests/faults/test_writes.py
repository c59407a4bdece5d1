"""A share of the write faults, with the real kernel in between; and the proof that the harness sees a store that is careless."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from regard.training.checkpoint import Store
from tests.faults import small_disk, system_calls, writes
from tests.faults.states import newest, save
from tests.faults.system_calls import Fault

pytestmark = pytest.mark.forks
traced = pytest.mark.skipif(bool(system_calls.why_not()), reason=system_calls.why_not() or "system calls can be traced")


@traced
@pytest.mark.parametrize("name", writes.SCENES)
def test_a_call_that_fails_costs_nothing(name: str, place: Path) -> None:
    made = writes.calls(name, place / "first")
    stride = max(1, len(made) // 13)
    faults = list(writes.some_faults(made, stride, start=len(name)))
    tally = writes.campaign(name, place, faults)
    assert tally.wrong == []
    assert tally.injected >= 10
    assert tally.recovered == tally.injected
    assert tally.detected > 2


@traced
def test_the_calls_that_make_it_durable_are_among_those_that_fail(place: Path) -> None:
    """Rust's own calls too: safetensors opens a file of its own name, writes, and renames it."""
    made = writes.calls("save", place)
    assert {"openat", "mkdir", "write", "fsync", "renameat", "rename", "close", "chmod", "getdents64"} <= {c.name for c in made}
    assert sum(call.name == "fsync" for call in made) == 6  # four files, the draft, the folder it is in
    assert any(call.name == "write" and "/.tmp" in call.path.rpartition("-step-")[2] for call in made)


@traced
@pytest.mark.parametrize("before_the_end_of_a_page", [1, 3, 200])
def test_a_path_is_read_also_where_it_goes_on_in_the_next_page(place: Path, before_the_end_of_a_page: int) -> None:
    """Where a path lies in memory differs from process to process."""
    pages = mmap.mmap(-1, 2 * system_calls.PAGE)
    name = f"{place}/made".encode()
    start = system_calls.PAGE - before_the_end_of_a_page
    pages[start : start + len(name) + 1] = name + b"\0"
    address = ctypes.addressof(ctypes.c_char.from_buffer(pages)) + start

    def make() -> str:
        return str(ctypes.CDLL(None).mkdir(ctypes.c_void_p(address), 0o700))

    ended = system_calls.run(make, place)
    assert ended.told == "0"
    assert [(call.name, call.path) for call in ended.calls] == [("mkdir", name.decode())]


@traced
@pytest.mark.parametrize(("what", "told"), [("ENOSPC", "Free some space"), ("EACCES", "writable"), ("EIO", "Check that disk")])
def test_the_sentence_names_what_failed_and_what_to_do(what: str, told: str, place: Path) -> None:
    folder = writes.stage("save", place)
    answer = writes.attempt("save", folder, Fault(1, what, among="write")).told
    assert answer.startswith(f"refused: Saving the checkpoint step-00000003 in {folder} failed: ")
    assert told in answer
    assert answer.endswith("the checkpoints already there are intact.")


@traced
def test_a_short_write_is_finished(place: Path) -> None:
    for number, call in enumerate(writes.calls("save", place / "first"), 1):
        if call.name == "write":
            folder = writes.stage("save", place / f"{number}")
            assert writes.attempt("save", folder, Fault(number, "short")).told == "done"
            assert newest(folder) == ((3, 3.5), [])


@traced
def test_a_careless_store_is_seen(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The harness itself: one that builds in place leaves half a checkpoint, one that swallows errors says 'saved' of nothing."""

    @contextmanager
    def in_place(final: Path) -> Iterator[Path]:
        final.mkdir()
        yield final

    faults = [Fault(number, what) for number, what in ((20, "kill"), (30, "EIO"), (60, "kill"))]
    with monkeypatch.context() as careless:
        careless.setattr("regard.training.checkpoint.atomic_folder", in_place)
        assert writes.campaign("save", place / "a", faults).lost == 3
    with monkeypatch.context() as careless:
        careless.setattr("regard.training.checkpoint.explain_os_errors", _swallowed)
        assert writes.campaign("save", place / "b", faults[1:2]).lost == 1


@contextmanager
def _swallowed(doing: str, folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError:
        return


def test_a_full_disk(place: Path) -> None:
    if reason := small_disk.why_not(place):
        pytest.skip(reason)
    tally = small_disk.campaign(place, range(4))
    assert tally.wrong == []
    assert tally.detected == tally.injected == 16


def test_rubbish_that_is_a_file_is_swept_too(place: Path) -> None:
    """A file that stood where a checkpoint belongs, set aside by a process that was killed before it could delete it."""
    store = Store(place)
    save(store, 1, 1.0)
    dead = writes._dead_process()
    (place / f".tmp-{dead}-ab-step-00000002").write_text("x")
    save(store, 2, 2.0)
    assert sorted(path.name for path in place.iterdir()) == ["step-00000001", "step-00000002"]
