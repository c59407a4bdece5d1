"""Chunks drawn by several processes: of sixteen, number 3 draws chunks 3, 19, 35, ... and hands them over through a pipe.

They are started as programs, not forked: a process that has started torch or its threads is not to be copied, and a script that
trains need not guard itself. A pipe holds little, so nobody draws far ahead of what is wanted.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count, cycle
from pathlib import Path
from typing import IO

import numpy as np

from regard.data.arena.drawing import PARTS, Asked, Drawn, Generator
from regard.errors import UserError

WORTH = 10.0  # seconds of drawing: to start a process takes some three
PACKAGE = Path(__file__).parents[3]


@contextmanager
def chunks_of(entry: str, kind: Generator, asked: Asked) -> Iterator[Iterator[Drawn]]:
    """In their order, without end: by this process alone if it is soon done, else by as many as there are processors."""
    share = len(PARTS[asked.split]) / 10 if kind.parted else 1.0
    seconds = asked.size / share / kind.rate
    if seconds < WORTH or processors() == 1:
        yield (kind.chunk(asked.settings, asked.split, asked.seed, number) for number in count())
        return
    among = min(processors(), 1 + int(seconds / 2))
    started = [_start(entry, number, among) for number in range(among)]
    try:
        yield _received(started)
    finally:
        for process in started:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


def _start(entry: str, number: int, among: int) -> subprocess.Popen[bytes]:
    path = os.pathsep.join(filter(None, [str(PACKAGE), os.environ.get("PYTHONPATH", "")]))
    command = [sys.executable, "-c", f"from {__name__} import main; main()", entry, str(number), str(among)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, env=os.environ | {"PYTHONPATH": path})


def _received(started: list[subprocess.Popen[bytes]]) -> Iterator[Drawn]:
    for process in cycle(started):
        assert process.stdout is not None
        if (chunk := received(process.stdout)) is None:
            raise UserError(
                f"a process that was drawing sequences ended with status {process.wait()}, with what it said above; is memory "
                "left? Ask for fewer with @count=N, or draw with fewer processors (taskset)."
            )
        yield chunk


def handed_over(chunk: Drawn) -> bytes:
    """How many symbols and sequences there are, then all of it."""
    sizes = np.array([len(chunk.flat), len(chunk.lengths)])
    return b"".join(part.astype(kind).tobytes() for part, kind in zip((sizes, *chunk), "qBqq"))


def received(pipe: IO[bytes]) -> Drawn | None:
    """None where it ended."""
    if len(head := pipe.read(16)) < 16:
        return None
    symbols, sequences = np.frombuffer(head, "q").tolist()
    if len(content := pipe.read(symbols + 16 * sequences)) < symbols + 16 * sequences:
        return None
    lengths, labels = np.frombuffer(content, "q", 2 * sequences, symbols).reshape(2, -1)
    return Drawn(np.frombuffer(content, np.uint8, symbols), lengths, labels)


def main() -> None:
    """What a process does until the pipe is closed."""
    from regard.data.arena import SETS, asked_for

    entry, first, among = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    asked = asked_for(entry)
    try:
        for number in count(first, among):
            chunk = SETS[asked.name].generator.chunk(asked.settings, asked.split, asked.seed, number)
            sys.stdout.buffer.write(handed_over(chunk))
            sys.stdout.buffer.flush()
    except BrokenPipeError:
        os._exit(0)  # nobody wants more, and nothing is left to tidy up


def processors() -> int:
    """Those this process may use, where the system can tell."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
