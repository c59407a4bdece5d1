"""One process that has torch imported and no threads, and forks a child for every training: a start costs no seconds.

Each line on its standard input is a JSON order: kind, folder, and perhaps a signal that the child sends to itself at its n-th
file-system event. It answers with the child's process number and, when that has ended, with its wait status and the seconds of
processor time that it took: by these moments are chosen, since a busy machine changes all others.
python -m tests.faults.server
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NoReturn

UNPICKLED = 71  # the exit code of a training in which anything, in whatever library, was unpickled


@dataclass(frozen=True)
class Strike:
    """A signal: after so many seconds of processor time, or at so many file-system events."""

    signal: int
    seconds: float = 0.0
    event: int = 0


class Server:
    def __init__(self) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=Path(__file__).parents[2],
        )
        assert self._out.readline() == "ready\n"
        self.seconds = 0.0  # of processor time, of the last training

    @property
    def _out(self) -> IO[str]:
        assert self.process.stdout is not None
        return self.process.stdout

    def train(self, kind: str, folder: Path, strike: Strike | None = None) -> int:
        """Train in the folder, perhaps not to the end. Returns the exit code, or minus the signal that ended it."""
        order = {"kind": kind, "folder": str(folder)}
        at_event = {"signal": int(strike.signal), "event": strike.event} if strike and strike.event else {}
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({**order, **at_event}) + "\n")
        self.process.stdin.flush()
        child = int(self._out.readline())
        if strike and not strike.event:
            while _processor_seconds(child) < strike.seconds:
                time.sleep(0.001)
            with suppress(ProcessLookupError):  # it had ended
                os.kill(child, strike.signal)
        status, seconds = self._out.readline().split()
        self.seconds = float(seconds)
        return os.waitstatus_to_exitcode(int(status))

    def stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()
        self._out.close()


def _processor_seconds(process: int) -> float:
    """Infinitely many of one that has ended."""
    try:
        state, *numbers = Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return float("inf")
    return float("inf") if state == "Z" else (int(numbers[10]) + int(numbers[11])) / os.sysconf("SC_CLK_TCK")


def log_of(folder: Path) -> str:
    """All that was said by all who trained there."""
    return Path(f"{folder}.log").read_text()


def events_of(folder: Path) -> int:
    """How many file-system events the last training that ended by itself had."""
    return int(Path(f"{folder}.events").read_text())


def _serve() -> None:
    import torch

    torch.set_num_threads(1)
    from regard.training import logging
    from tests.command import regard as command
    from tests.command import tiny
    from tests.faults.kinds import KINDS

    command("train", tiny(), "--dry-run")  # imports, once for all, what a training needs
    setattr(logging, "draw_curves", lambda records, path: path.write_bytes(b""))  # noqa: B010, half of the time else
    assert threading.active_count() == 1
    print("ready", flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        if not (child := os.fork()):
            _train(KINDS[order["kind"]], order)
        print(child, flush=True)
        _, status, used = os.wait4(child, 0)
        print(status, used.ru_utime + used.ru_stime, flush=True)


def _train(train: Any, order: dict[str, Any]) -> NoReturn:
    folder = order["folder"]
    log = os.open(f"{folder}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    sys.argv = ["regard", "train", "--out", folder]
    code, seen = 70, [0]
    sys.addaudithook(lambda name, arguments: _count(seen, name, arguments, order))
    try:
        train(Path(folder))
        code = 0
    except SystemExit as stop:
        code = int(stop.code or 0)
    except BaseException as error:
        os.write(2, f"broke: {error!r}\n".encode())
    if code == 0:
        Path(f"{folder}.events").write_text(str(seen[0]))
    os._exit(code)


def _count(seen: list[int], name: str, arguments: tuple[Any, ...], order: dict[str, Any]) -> None:
    """An audit hook: each file opened, made, renamed or removed in the run's folder is an event, and unpickling is the end."""
    if name == "pickle.find_class":
        os.write(2, f"broke: {arguments} was unpickled\n".encode())
        os._exit(UNPICKLED)
    if not (name == "open" or name.startswith(("os.", "shutil."))) or not arguments or name == "os.kill":
        return
    if str(arguments[0]).startswith(f"{order['folder']}/"):
        seen[0] += 1
        if seen[0] == order.get("event"):
            os.kill(os.getpid(), order["signal"])


if __name__ == "__main__":
    _serve()
