"""Commands in a forked process that may take 1 GiB more memory, 10 s of processor time each, and two minutes to wait.

The process that forks has imported everything and run every verb once, so a case costs what its commands cost; one child does
many cases, and where it dies the next child goes on behind the case that it died of. The limits are those of the kernel: an
allocation that fails, a library that aborts and a read that waits for ever are seen as what they are.
"""

from __future__ import annotations

import faulthandler
import os
import pickle
import re
import resource
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from regard.core.terminal import printable
from tests.command import Result, regard

MEMORY = 1 << 30
SECONDS = 10
PATIENCE = 120  # seconds that a command may wait for nothing; on a busy machine ten of the processor may take as long
BATCH = 40  # cases of one child

Command = Sequence[object] | Callable[[], Result]
Make = Callable[[Path], Sequence[Command]]
"""Writes the files of a case into an empty folder, and says what is to be done with them."""


class Step(NamedTuple):
    """A command of a case that has begun; one that has ended has a result."""

    case: int
    command: str
    result: Result | None = None
    seconds: float = 0.0  # of processor time
    printed: str = ""  # by libraries, past Python's streams


def faults(cases: Sequence[Make], place: Path) -> list[tuple[int, str]]:
    """The number of each case that went wrong, and how; the folder of such a case stays in `place`, under its number."""
    found: list[tuple[int, str]] = []
    first = 0
    while first < len(cases):
        last = begun = Step(first, "before anything")
        code = 0
        for step in _forked(cases[: first + BATCH], first, place):
            if isinstance(step, int):
                code = step
                continue
            last = step
            begun = step if step.result is None else begun
            found += [(step.case, f"{step.command}: {fault}") for fault in _faults(step)]
        if code:
            how = f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
            found.append(
                (begun.case, f"{begun.command}: the process {how}: {(place / 'log').read_text(errors='replace')[-600:]}")
            )
        first = last.case + 1
    return found


def _forked(cases: Sequence[Make], first: int, place: Path) -> Iterator[Step | int]:
    """What a child tells of the cases from `first` on, and how it ended."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _work(cases, first, place, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        yield from iter(lambda: _received(pipe), None)
    yield os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _received(pipe: IO[bytes]) -> Any:
    try:
        return pickle.load(pipe)
    except (EOFError, pickle.UnpicklingError):  # it died, perhaps while it told something
        return None


def _work(cases: Sequence[Make], first: int, place: Path, writing: int) -> None:
    """In the child, which never returns."""
    code = 1
    try:
        log = os.open(place / "log", os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        faulthandler.disable()  # pytest's would tell of an abort on the terminal
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with os.fdopen(writing, "wb") as pipe:
            for number in range(first, len(cases)):
                if _tried(number, cases[number], place / str(number), log, pipe):
                    _remove(place / str(number))
        code = 0
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(code)


def _tried(number: int, make: Make, folder: Path, log: int, pipe: IO[bytes]) -> bool:
    folder.mkdir()
    good = True
    for command in make(folder):
        name = repr(command) if callable(command) else " ".join(map(str, command))[:300]
        _tell(pipe, Step(number, name))
        began = _limited()
        try:
            result = command() if callable(command) else regard(*command)
        except BaseException:
            result = Result(1, "", traceback.format_exc()[-3000:])
        step = Step(number, name, result, time.process_time() - began, os.pread(log, 3000, 0).decode(errors="replace"))
        os.ftruncate(log, 0)
        _tell(pipe, step)
        good = good and not _faults(step)
    return good


def _limited() -> float:
    """Set the limits for one command; the processor time that went before it."""
    used = time.process_time()
    resource.setrlimit(resource.RLIMIT_CPU, (int(used) + 2 + SECONDS, resource.RLIM_INFINITY))
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY, resource.RLIM_INFINITY))
    signal.alarm(PATIENCE)
    return used


def _tell(pipe: IO[bytes], step: Step) -> None:
    pickle.dump(step, pipe)
    pipe.flush()


def _remove(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            path.chmod(0o600)
    shutil.rmtree(folder)


def _faults(step: Step) -> list[str]:
    """What was wrong with how a command ended; nothing if it did its work, or said in a sentence why not."""
    if step.result is None:
        return []
    code, _, told = step.result
    found = ["took all memory"] if "more memory than there is" in told else []
    if step.seconds > SECONDS:
        found.append(f"took {step.seconds:.1f} s")
    if "panicked at" in step.printed:
        found.append(f"a panic was printed: {step.printed[-300:]}")
    if "Traceback" in told or code not in (0, 2):
        return [*found, f"ended with {code}: {told[-600:]}"]
    if printable(told, keep="\n\t") != told:
        found.append(f"prints what a terminal obeys: {told[-300:]!r}")
    sentence = told[told.find("regard: ") :]
    many = len(re.findall(r"^regard: ", told, re.M))
    if code == 2 and (many != 1 or not 20 < len(sentence) < 1200 or sentence.count("\n") > 3):
        found.append(f"is no sentence: {told[-600:]!r}")
    return found
