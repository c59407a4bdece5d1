"""Clients that ask a server over HTTP in a closed loop: each sends its next request when it has the answer to the last.

They share their cores with the server, so they are one thread with raw connections: requests are written beforehand, and an
answer is read by its Content-Length and compared with the text that is expected.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

SLICES = 4
PATIENCE = 120.0  # seconds for answers after the end; what is then not answered is lost


class Request(NamedTuple):
    path: str
    body: dict[str, Any]
    text_of: Callable[[Any], str]  # takes the text out of an answer

    def bytes(self) -> bytes:
        content = json.dumps(self.body).encode()
        lines = [
            f"POST {self.path} HTTP/1.1",
            "Host: 127.0.0.1",
            "Content-Type: application/json",
            f"Content-Length: {len(content)}",
        ]
        return "\r\n".join([*lines, "", ""]).encode() + content


@dataclass
class Found:
    """The measurements of one load; times are in seconds."""

    seconds: float = 0.0  # of the window in which answers count
    answered: int = 0  # in that window
    slices: list[float] = field(default_factory=list)  # answers a second in each part of the window
    latencies: list[float] = field(default_factory=list)  # of answers in the window, sorted
    sent: int = 0  # all requests, those before and after the window too
    lost: int = 0  # no answer, or another status than 200
    wrong: int = 0
    cpu: float = 0.0  # share of a core that the clients' own process took

    @property
    def throughput(self) -> float:
        return self.answered / self.seconds

    def latency(self, share: float) -> float:
        return self.latencies[min(int(len(self.latencies) * share), len(self.latencies) - 1)]

    @property
    def quartiles(self) -> tuple[float, float]:
        lower, _, upper = statistics.quantiles(self.slices, n=4)
        return lower, upper


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> tuple[int, bytes]:
    """Send a request and return status and content of its answer."""
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    lower = head.lower()
    at = lower.index(b"content-length:") + len(b"content-length:")
    length = int(lower[at : lower.index(b"\r\n", at)])
    return int(head[9:12]), await reader.readexactly(length)


def each_alone(port: int, requests: Sequence[Request]) -> list[str]:
    """Return the texts that a server answers when it is asked for one after the other."""

    async def texts() -> list[str]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        found = list[str]()
        for request in requests:
            status, content = await ask(reader, writer, request.bytes())
            if status != 200:
                raise RuntimeError(f"the server answers {status}: {content[:300]!r}")
            found.append(request.text_of(json.loads(content)))
        writer.close()
        return found

    return asyncio.run(texts())


class Load:
    """A number of clients, for a time or for a number of requests."""

    def __init__(self, port: int, requests: Sequence[Request], expected: Sequence[str], patience: float = PATIENCE) -> None:
        self.port, self.requests, self.expected, self.patience = port, requests, expected, patience
        self.written = [request.bytes() for request in requests]

    def run(
        self,
        clients: int,
        *,
        seconds: float = 0.0,
        warm_up: float = 0.0,
        most: int = 0,
        every: Callable[[int], None] | None = None,
    ) -> Found:
        """Send for `warm_up` and then `seconds` seconds, or else `most` requests; `every` is called after each tenth of these."""
        return asyncio.run(self._run(clients, seconds, warm_up, most, every))

    async def _run(self, clients: int, seconds: float, warm_up: float, most: int, every: Callable[[int], None] | None) -> Found:
        found, answers = Found(), list[tuple[float, float]]()
        used, entered = time.process_time(), time.perf_counter()
        began = entered + warm_up

        def numbers() -> Iterator[int]:
            for number in count():
                if number >= most if most else time.perf_counter() >= began + seconds:
                    return
                if every is not None and number and not number % max(1, most // 10):
                    every(number)
                yield number

        shared = numbers()
        tasks = [asyncio.create_task(self._client(shared, found, answers)) for _ in range(clients)]
        _, waiting = await asyncio.wait(tasks, timeout=None if most else warm_up + seconds + self.patience)
        found.cpu = (time.process_time() - used) / (time.perf_counter() - entered)
        found.lost += len(waiting)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        for task in tasks:
            if task not in waiting:
                task.result()
        found.seconds = time.perf_counter() - began if most else seconds
        counted = [(at - began, taken) for at, taken in answers if 0 <= at - began <= found.seconds]
        found.answered, found.latencies = len(counted), sorted(taken for _, taken in counted)
        width = found.seconds / SLICES
        found.slices = [sum(n * width <= at < (n + 1) * width for at, _ in counted) / width for n in range(SLICES)]
        if not counted:
            raise RuntimeError(f"no answer came within {found.seconds:.0f} s; {found.lost:,} of {found.sent:,} requests are lost")
        return found

    async def _client(self, numbers: Iterator[int], found: Found, answers: list[tuple[float, float]]) -> None:
        connection: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        for number in numbers:
            number %= len(self.requests)
            found.sent += 1
            began = time.perf_counter()
            try:
                connection = connection or await asyncio.open_connection("127.0.0.1", self.port)
                status, content = await ask(*connection, self.written[number])
            except (OSError, EOFError, ValueError):  # closed, cut off, or no HTTP
                found.lost += 1
                connection = None
                continue
            now = time.perf_counter()
            if status != 200:
                found.lost += 1
                continue
            answers.append((now, now - began))
            found.wrong += self.requests[number].text_of(json.loads(content)) != self.expected[number]
        if connection is not None:
            connection[1].close()
