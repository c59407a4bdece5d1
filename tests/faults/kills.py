"""Stopped at random moments, by force or politely, and started again: the weights at the end must be those of a run left alone.

Half of the moments are times of the processor, so that they fall into forward passes, validation and set-up; half are
file-system events, so that they fall into saves, which are short.
"""

from __future__ import annotations

import hashlib
import random
import re
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path

from regard.training.checkpoint import Store
from regard.training.logging import read_metrics
from tests.faults.kinds import EVERY, STEPS
from tests.faults.server import Server, Strike, events_of, log_of
from tests.faults.tally import Tally

PATIENCE = 60  # strikes after which a run is left to finish


@dataclass(frozen=True)
class Alone:
    """A run that nobody touched."""

    kind: str
    weights: dict[str, str]
    seconds: float  # of processor time
    events: int

    @classmethod
    def train(cls, server: Server, kind: str, folder: Path) -> Alone:
        assert server.train(kind, folder) == 0, log_of(folder)
        seconds = server.seconds
        found = weights(folder)
        assert {name.split("-")[0] for name in found} == {"step", "best", "average"}
        return cls(kind, found, seconds, events_of(folder))

    def strike(self, number: int, chance: random.Random) -> Strike:
        """At most two thirds of the way, or few runs would be struck twice."""
        if chance.random() < 0.5:
            return Strike(number, seconds=chance.uniform(0.02, 0.65) * self.seconds)
        return Strike(number, event=chance.randint(1, int(0.65 * self.events)))


def weights(folder: Path) -> dict[str, str]:
    """The sha256 of every tensor file that is kept."""
    files = sorted((folder / "checkpoints").glob("[!.]*/*.safetensors"))
    return {f"{f.parent.name}/{f.name}": hashlib.sha256(f.read_bytes()).hexdigest() for f in files}


def work_lost(folder: Path) -> int:
    """Steps to be taken again. Whatever is there must be whole, whatever moment the process died in."""
    said: list[str] = []
    found = Store(folder / "checkpoints", said.append).newest("step")
    assert not said, said
    logged = [record["step"] for record in read_metrics(folder / "metrics.jsonl").records]
    return max(0, max(logged, default=0) - (found.step if found else 0))


@dataclass
class Killed:
    tally: Tally
    runs: int = 0
    most_work_lost: int = 0


def kill_campaign(server: Server, kind: str, folder: Path, kills: int, seed: int = 0) -> Killed:
    """SIGKILL as often as asked for, over as many runs as that takes; each ends as the untouched one, or its kills are lost."""
    alone, chance, done = Alone.train(server, kind, folder / "alone"), random.Random(seed), Killed(Tally())
    while done.tally.injected < kills:
        done.runs += 1
        run, strikes, code = folder / f"{done.runs}", 0, -1
        while code != 0 and strikes < PATIENCE:
            code = server.train(kind, run, alone.strike(signal.SIGKILL, chance))
            assert code in (0, -signal.SIGKILL), log_of(run)
            if code:
                strikes += 1
                done.most_work_lost = max(done.most_work_lost, work_lost(run))
        code = code and server.train(kind, run)
        recovered = code == 0 and weights(run) == alone.weights and not list(run.glob("checkpoints/.*"))
        for strike in range(strikes):
            done.tally.add(f"{kind}, run {done.runs}, kill {strike}", detected=True, recovered=recovered, told=log_of(run)[-300:])
        _clear(run)
    _clear(folder / "alone")
    return done


def signal_campaign(server: Server, kind: str, folder: Path, count: int, seed: int = 0) -> Tally:
    """Ctrl-C and SIGTERM: the right exit code, a word on how to go on, and the same last weights when it does."""
    alone, chance, tally = Alone.train(server, kind, folder / "alone"), random.Random(seed), Tally()
    for number in range(count):
        asked = (signal.SIGTERM, signal.SIGINT)[number % 2]
        run, strike = folder / f"{number}", alone.strike(asked, chance)
        code = server.train(kind, run, strike)
        log = log_of(run)
        begun = re.search(r"^ +\d+/\d+ ", log, re.M) is not None  # before the first step there is nothing to save
        saved = re.search(r"saved step (\d+) in .*; continue with: regard train", log)
        polite = code == 128 + asked and saved is not None and (run / "checkpoints" / f"step-{int(saved[1]):08d}").is_dir()
        early = code in (-asked, 128 + asked) and not begun  # it was still reading the data: there is nothing to save yet
        if run.exists():
            work_lost(run)
        again = code if code == 0 else server.train(kind, run)
        recovered = again == 0 and _last(weights(run)) == _last(alone.weights)
        tally.add(
            f"{kind}, {strike}", detected=polite or early, harmless=code == 0, recovered=recovered, told=f"{code} {log[-300:]}"
        )
        _clear(run)
    _clear(folder / "alone")
    return tally


def _clear(run: Path) -> None:
    shutil.rmtree(run)
    for path in run.parent.glob(f"{run.name}.*"):
        path.unlink()


def _last(found: dict[str, str]) -> dict[str, str]:
    """The step a run was stopped at is a checkpoint of its own, so what is kept and averaged may differ, the last step not."""
    return {name: digest for name, digest in found.items() if name.startswith(f"step-{STEPS:08d}/")}


assert STEPS % EVERY == 0
