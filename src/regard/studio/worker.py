"""The queue in which all computing waits: a few threads, a bounded line, and a sentence for those who find it full.

Passes through a model take seconds; rebuilding weights takes milliseconds. Each has threads of its own, so that a matrix comes
while a long text is still being read, and the page itself, served by the event loop, never waits for either.

Large blocks go back to the system when they are freed.

glibc takes blocks from the system one by one until the first of them is freed; then it keeps what is smaller than that one for
itself, up to 32 MB, in a pool a thread. A server whose threads each pass a long text once would hold that memory for good.
"""

from __future__ import annotations

import asyncio
import ctypes
import ctypes.util
from asyncio import AbstractEventLoop, Future
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar
from weakref import finalize

T = TypeVar("T")
Job = tuple[AbstractEventLoop, "Future[Any]", Callable[[], Any]]


class Full(Exception):
    """More is asked for than is worth waiting for."""


class Stopped(Exception):
    """The server is being stopped, so what was asked for will not come."""


class Work:
    """Its threads are daemons: one that is stuck, in a read that never ends, does not keep the process from ending."""

    def __init__(self, name: str, threads: int, most: int) -> None:
        self.name, self.most, self.threads, self.closed = name, most, threads, False
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._waiting: set[Future[Any]] = set()
        self._started = False

    @property
    def held(self) -> int:
        return len(self._waiting)

    async def do(self, job: Callable[[], T]) -> T:
        """`_waiting` is only touched by the event loop, so it needs no lock."""
        if self.closed:
            raise Stopped
        if self.held >= self.most:
            raise Full(f"{self.held} requests are waiting for {self.name} already; try again in a moment.")
        self._start()
        loop = asyncio.get_running_loop()
        future: Future[T] = loop.create_future()
        self._waiting.add(future)
        future.add_done_callback(self._waiting.discard)
        self._jobs.put((loop, future, job))
        return await future

    def close(self) -> None:
        """Refuse all waiting jobs; threads end after the job they are doing."""
        self.closed = True
        for future in list(self._waiting):
            if not future.done():
                future.set_exception(Stopped())
        _dismiss(self._jobs, self.threads)

    def _start(self) -> None:
        """Start the threads with the first job; they know the queue and not its owner, so that they end with it."""
        if self._started:
            return
        self._started = True
        for n in range(self.threads):
            Thread(target=_work, args=(self._jobs,), name=f"studio-{self.name}-{n}", daemon=True).start()
        finalize(self, _dismiss, self._jobs, self.threads)


def _dismiss(jobs: SimpleQueue[Job | None], threads: int) -> None:
    for _ in range(threads):
        jobs.put(None)


def _work(jobs: SimpleQueue[Job | None]) -> None:
    while (one := jobs.get()) is not None:
        _do(*one)
        del one  # or its result would be held until the next comes


def _do(loop: AbstractEventLoop, future: Future[Any], job: Callable[[], Any]) -> None:
    if future.done():
        return
    try:
        outcome = future.set_result, job()
    except BaseException as error:  # whoever waits for it handles it
        outcome = future.set_exception, error
    with suppress(RuntimeError):  # the loop is closed: no caller waits any more
        loop.call_soon_threadsafe(lambda: None if future.done() else outcome[0](outcome[1]))


THRESHOLD = 1 << 20  # bytes
M_MMAP_THRESHOLD = -3  # of mallopt, in malloc.h


def give_back_large_blocks() -> bool:
    """Make the whole process give back large blocks of memory. False without glibc: other allocators do so by themselves."""
    name = ctypes.util.find_library("c")
    mallopt = getattr(ctypes.CDLL(name), "mallopt", None) if name else None
    return mallopt is not None and mallopt(M_MMAP_THRESHOLD, THRESHOLD) == 1
