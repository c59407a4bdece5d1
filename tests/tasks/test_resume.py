"""Kill a run at random moments, start it again by the same command, and compare with the run that was never touched."""

import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

SETTINGS = [
    *("train.steps=60", "train.warmup=10", "train.tokens_per_batch=600", "train.validate_every=15", "train.checkpoint_every=4"),
    *("train.keep=3", "train.average=3", "train.log_every=5", "data.limit=500"),
    *("model.width=32", "model.feedforward=48", "model.heads=2", "model.layers=1", "model.dropout=0.2"),
    *("decode.search=greedy", "decode.maximum_length=4"),
]

# One process imports torch and reads the corpus, then forks a child for every attempt: a start costs no seconds. It uses no
# threads before it forks. Lines on its standard input are folders to train in; it answers with the child's process number and,
# when that ends, its wait status.
SERVER = """
import os, sys, torch
torch.set_num_threads(1)
import regard.tasks.training
from regard.cli import main
from regard.data.builtin.english_french import english_french
english_french("train")
print("ready", flush=True)
for line in sys.stdin:
    folder = line.strip()
    if not (child := os.fork()):
        log = os.open(folder + ".log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1); os.dup2(log, 2)
        try:
            sys.argv = ["regard", "train", "translate", *%r, "--out", folder]
            main()
        except SystemExit as stop:
            os._exit(stop.code or 0)
        finally:
            os._exit(70)
    print(child, flush=True)
    print(os.waitpid(child, 0)[1], flush=True)
"""


class Server:
    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVER % (SETTINGS,)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout.readline() == "ready\n"

    def train(self, folder: Path, number: int | None = None, wait: Callable[[], object] = lambda: None) -> int:
        """Train in the folder; with a signal number, wait and send it. Returns the exit code, or minus the signal."""
        self.process.stdin.write(f"{folder}\n")
        self.process.stdin.flush()
        child = int(self.process.stdout.readline())
        if number is not None:
            wait()
            with suppress(ProcessLookupError):  # it had ended
                os.kill(child, number)
        return os.waitstatus_to_exitcode(int(self.process.stdout.readline()))


@pytest.fixture(scope="module")
def server():
    server = Server()
    yield server
    server.process.kill()


def weights(folder: Path) -> dict[str, str]:
    files = [*folder.glob("checkpoints/*/model.safetensors"), *folder.glob("checkpoints/step-*/optimizer.safetensors")]
    return {str(f.relative_to(folder)): hashlib.sha256(f.read_bytes()).hexdigest() for f in sorted(files)}


@pytest.fixture(scope="module")
def untouched(server, tmp_path_factory):
    folder = tmp_path_factory.mktemp("untouched") / "run"
    began = time.perf_counter()
    assert server.train(folder) == 0, Path(f"{folder}.log").read_text()
    found = weights(folder)
    assert {name.split("/")[1].split("-")[0] for name in found} == {"step", "best", "average"}
    return folder, found, time.perf_counter() - began


def test_twenty_kills(server, untouched, tmp_path):
    _, expected, seconds = untouched
    moments = random.Random(20)
    kills = attempt = 0
    while kills < 20:
        attempt += 1
        folder = tmp_path / f"run{attempt}"
        code = None
        for _ in range(100):
            moment = moments.uniform(0.02, 0.7) * seconds
            code = server.train(folder, signal.SIGKILL, lambda: time.sleep(moment))  # noqa: B023, called before it changes
            if code == 0:
                break
            assert code == -signal.SIGKILL, Path(f"{folder}.log").read_text()
            kills += 1
        assert code == 0
        assert weights(folder) == expected
        assert not list(folder.glob("checkpoints/.*"))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_polite_signal_saves_and_says_how_to_go_on(server, untouched, tmp_path, number, code):
    _, expected, _ = untouched
    folder = tmp_path / "run"

    def until_it_trains() -> None:
        while not (folder / "metrics.jsonl").exists() or not (folder / "metrics.jsonl").stat().st_size:
            time.sleep(0.01)

    assert server.train(folder, number, until_it_trains) == code
    log = Path(f"{folder}.log").read_text()
    assert "continue with: regard train translate train.steps=60" in log
    assert f"--out {folder}" in log
    assert server.train(folder) == 0
    # The step it stopped at is a checkpoint of its own, so what is kept and averaged may differ; the last step may not.
    last = "checkpoints/step-00000060/model.safetensors"
    assert weights(folder)[last] == expected[last]


def test_a_finished_run_has_nothing_to_do(server, untouched):
    folder, expected, _ = untouched
    before = {f: f.stat().st_mtime_ns for f in folder.glob("checkpoints/step-*/*")}
    assert server.train(folder) == 0
    assert weights(folder) == expected
    assert {f: f.stat().st_mtime_ns for f in folder.glob("checkpoints/step-*/*")} == before
    assert "nothing left to train" in Path(f"{folder}.log").read_text()
