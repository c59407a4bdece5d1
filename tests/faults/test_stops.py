"""Killed, interrupted, poisoned: a share of each campaign. Whatever stops a run, it goes on to the weights it would have had."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults import kills, non_finite
from tests.faults.kinds import EVERY, KINDS
from tests.faults.server import UNPICKLED, Server, _count


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.stop()


@pytest.mark.parametrize("kind", KINDS)
def test_killed_and_started_again(kind: str, server: Server, place: Path) -> None:
    killed = kills.kill_campaign(server, kind, place, kills=6, seed=len(kind))
    assert killed.tally.wrong == []
    assert killed.tally.injected >= 6
    assert killed.most_work_lost <= EVERY


def test_asked_to_stop(server: Server, place: Path) -> None:
    tally = kills.signal_campaign(server, "translation", place, count=4, seed=2)
    assert tally.wrong == []
    assert tally.detected >= 2


def test_a_value_that_is_no_number_is_found_and_never_saved(place: Path) -> None:
    tally, latest = non_finite.campaign(place, list(non_finite.POISONS), steps=[5], values=non_finite.VALUES[:1])
    assert tally.wrong == []
    assert tally.detected == tally.recovered == tally.injected == 6
    assert latest <= 1


def test_weights_that_break_before_a_validation_name_the_newest_good_checkpoint(place: Path) -> None:
    assert non_finite.campaign(place, ["first moment"], steps=[7], values=non_finite.VALUES[:1])[0].wrong == []


def test_unpickling_would_end_a_training(place: Path) -> None:
    """Every training above ran under this watch, through all its libraries."""
    if not (child := os.fork()):
        sys.addaudithook(lambda name, arguments: _count([0], name, arguments, {"folder": str(place)}))
        pickle.loads(pickle.dumps(Path("x")))
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == UNPICKLED
