"""Hundreds of hostile files through the commands that read them: each does its work, or says why not."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.command import Result, contents
from tests.faults import sandbox
from tests.faults.hostile import GROUPS, corpus, told_faults, warm
from tests.faults.sandbox import faults


@pytest.fixture(scope="module")
def warmed() -> None:
    warm()


@pytest.mark.parametrize("group", list(GROUPS))
def test_hostile_files_are_refused_in_a_sentence(group: str, place: Path, warmed: None) -> None:
    told = told_faults(corpus(group), place)
    assert not told, "\n".join(told)


def test_there_are_more_than_three_hundred() -> None:
    assert sum(count for _, count in GROUPS.values()) >= 300


def test_the_same_seed_makes_the_same_files(tmp_path: Path) -> None:
    for group in ("vectors", "images"):
        made = []
        for n in range(2):
            folder = tmp_path / f"{group}{n}"
            for case in corpus(group)[-6:]:
                (folder / case.name).mkdir(parents=True)
                case.make(folder / case.name)
            made.append(contents(folder))
        assert made[0] == made[1]
    assert [case.name for case in corpus("data", seed=1)] != [case.name for case in corpus("data", seed=2)]


def _allocate() -> Result:
    return Result(len(bytearray(3 << 30)) and 0, "", "")


def _loop() -> Result:
    while time.process_time() < 1e9:
        pass
    return Result(0, "", "")


def _wait() -> Result:
    time.sleep(1e6)
    return Result(0, "", "")


@pytest.mark.parametrize(
    ("deed", "told"),
    [
        (_allocate, "MemoryError"),
        (_loop, "ended by SIGXCPU"),
        (_wait, "ended by SIGALRM"),
        (lambda: os.abort(), "ended by SIGABRT"),
        (lambda: 1 // 0, "ZeroDivisionError"),
        (lambda: Result(1, "", "regard: a sentence that is long enough.\n"), "ended with 1"),
        (lambda: Result(2, "", "nothing was said\n"), "is no sentence"),
        (lambda: Result(2, "", "regard: one sentence is enough.\nregard: two are too many.\n"), "is no sentence"),
        (lambda: Result(2, "", f"regard: {'x' * 5000}\n"), "is no sentence"),
        (lambda: Result(2, "", "regard: a sentence with \x1b[2J in it.\n"), "a terminal obeys"),
        (lambda: Result(2, "", "regard: this takes more memory than there is.\n"), "took all memory"),
        (lambda: os.write(2, b"thread panicked at x.rs") and Result(0, "", ""), "a panic was printed"),
    ],
    ids=range(12),
)
def test_what_goes_wrong_is_seen(deed: Callable[[], Result], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "SECONDS", 1)
    monkeypatch.setattr(sandbox, "PATIENCE", 1 if deed is _wait else 120)
    good = partial(Result, 0, "", "")
    found = faults([lambda folder: [good, deed, good], lambda folder: [good]], tmp_path)
    assert [case for case, _ in found] == [0]
    assert told in found[0][1]


def test_what_goes_well_is_no_fault(tmp_path: Path) -> None:
    for result in (
        Result(0, "anything\x1b", "20/20 steps\n"),
        Result(2, "", "a note\nregard: this cannot be read; give another.\n"),
    ):
        assert faults([lambda folder: [partial(Result, *result)]], tmp_path) == []  # noqa: B023
        assert [path.name for path in tmp_path.iterdir()] == ["log"]
