"""A server in a process of its own: started on a free port, ready, measured by its memory, and stopped."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

LONG = 300.0


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def started(command: Sequence[str]) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Run a command with `--port` and wait until `/ready` answers; it must end with exit code 0 at SIGTERM."""
    port = free_port()
    process = subprocess.Popen([*command, "--port", str(port)], stderr=subprocess.PIPE, text=True)
    while not is_ready(port):
        if process.poll() is not None:
            raise RuntimeError(f"the server did not start: {process.stderr.read()[-500:] if process.stderr else ''}")
        time.sleep(0.1)
    try:
        yield process, port
    finally:
        if process.poll() is None:
            process.terminate()
        if process.wait(LONG) != 0:
            raise RuntimeError(f"the server ended with exit code {process.returncode}")


def is_ready(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/ready", timeout=LONG).status_code == 200
    except httpx.TransportError:
        return False


def resident(pid: int) -> float:
    """Return megabytes of memory of a process and its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    own = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    return own + sum(resident(int(child)) for child in children)
