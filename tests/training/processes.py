"""Real processes for tests of several: forked from one that has imported everything, so that a start costs no seconds."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import torch

from regard.cli import main
from regard.training import logging

context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(["tests.training.processes", "tests.training.warm"])


class Processes:
    """`size` processes that call the same function as torchrun would have started them; what each prints is in `told`."""

    def __init__(self, size: int, folder: Path, function: Callable[..., None], *arguments: Any) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.logs = [folder / f"rank{rank}.log" for rank in range(size)]
        port = _free_port()
        self.running: list[ForkServerProcess] = [
            context.Process(target=_begin, args=(rank, size, port, self.logs[rank], function, *arguments)) for rank in range(size)
        ]
        for process in self.running:
            process.start()

    def signal(self, rank: int, number: int) -> None:
        os.kill(self.running[rank].pid or 0, number)

    def codes(self, seconds: float = 600.0) -> list[int | None]:
        """How each ended; None for one that is still there when the time is up, and is killed then."""
        deadline = time.monotonic() + seconds
        for process in self.running:
            process.join(max(0.0, deadline - time.monotonic()))
        found = [process.exitcode for process in self.running]
        for process in self.running:
            process.kill()
        return found

    @property
    def told(self) -> list[str]:
        return [log.read_text() if log.exists() else "" for log in self.logs]


def _begin(rank: int, size: int, port: int, log: Path, function: Callable[..., None], *arguments: Any) -> None:
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo"}
    torch.set_num_threads(1)
    os.fsync = lambda handle: None  # type: ignore[assignment]  # disks have tests of their own
    setattr(logging, "draw_curves", lambda records, path: None)  # noqa: B010, which takes longer than to train
    function(*arguments)


def command(arguments: Sequence[str], full_disk_of_rank: int | None = None) -> None:
    """`regard ARGUMENTS`; one of the processes may find that files can grow no further."""
    if os.environ["RANK"] == str(full_disk_of_rank):
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    sys.argv = ["regard", *arguments]
    main()


_ports = count(20_000 + 37 * os.getpid() % 10_000)  # below those that the system gives to whoever asks for any


def _free_port() -> int:
    """One that nobody takes before the first of the processes listens there: other workers begin to look elsewhere."""
    for port in _ports:
        with suppress(OSError), socket.socket() as listening:
            listening.bind(("127.0.0.1", port))
            return port
    raise AssertionError
