"""The queue in which all computing waits: a few threads, a bounded line, and a sentence for those who find it full.

Passes through a model take seconds; rebuilding weights takes milliseconds. Each has threads of its own, so that a matrix comes
while a long text is still being read, and the page itself, served by the event loop, never waits for either.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class Full(Exception):
    """More is asked for than is worth waiting for."""


class Work:
    def __init__(self, name: str, threads: int, most: int) -> None:
        self.name, self.most, self.held = name, most, 0
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=f"studio-{name}")

    async def do(self, job: Callable[[], T]) -> T:
        """`held` is only touched by the event loop, so it needs no lock."""
        if self.held >= self.most:
            raise Full(f"{self.held} requests are waiting for {self.name} already; try again in a moment.")
        self.held += 1
        future = asyncio.get_running_loop().run_in_executor(self._pool, job)
        future.add_done_callback(self._leave)
        return await future

    def _leave(self, _: object) -> None:
        self.held -= 1

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
