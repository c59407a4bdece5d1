"""Ask a run to stop, start it again by the same command, and compare with the run that was never touched.

Runs that are killed, at many moments, are in tests/faults/test_stops.py.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.kills import weights
from tests.faults.kinds import STEPS
from tests.faults.server import Server, Strike, events_of, log_of

KIND = "translation"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def untouched(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("untouched") / "run"
    assert server.train(KIND, folder) == 0, log_of(folder)
    assert {name.split("-")[0] for name in weights(folder)} == {"step", "best", "average"}
    return folder


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_polite_signal_saves_and_says_how_to_go_on(
    server: Server, untouched: Path, tmp_path: Path, number: int, code: int
) -> None:
    folder = tmp_path / "run"
    assert server.train(KIND, folder, Strike(number, event=events_of(untouched) // 2)) == code, log_of(folder)
    log = log_of(folder)
    assert re.search(rf"; continue with: regard train \S+/tiny\.toml train\.steps={STEPS} .* --out {folder}\n", log), log
    assert server.train(KIND, folder) == 0, log_of(folder)
    # The step it stopped at is a checkpoint of its own, so what is kept and averaged may differ; the last step may not.
    last = f"step-{STEPS:08d}/model.safetensors"
    assert weights(folder)[last] == weights(untouched)[last]


def test_a_finished_run_has_nothing_to_do(server: Server, untouched: Path) -> None:
    expected = weights(untouched)
    before = {path: path.stat().st_mtime_ns for path in untouched.glob("checkpoints/step-*/*")}
    assert server.train(KIND, untouched) == 0
    assert weights(untouched) == expected
    assert {path: path.stat().st_mtime_ns for path in untouched.glob("checkpoints/step-*/*")} == before
    assert "nothing left to train" in log_of(untouched)
