"""How long a connection may keep the server waiting, and which one is closed when there are too many.

An unfinished request costs its sender nothing and the server a file descriptor; a few hundred of them would shut everybody
out. So every stage of a connection has a time limit, and there is a bound on connections: above it the client that has most of
them loses the one that has waited longest. A request that is complete and being answered is never closed.
"""

from __future__ import annotations

import resource
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from regard.studio.guard import HEADERS

Stage = Literal["head", "body", "answering", "unread"]
MOST = 512  # connections, where descriptors do not set a lower bound; a browser opens six


@dataclass(frozen=True)
class Limits:
    """Seconds, but for the number of connections."""

    connections: int = MOST
    head: float = 10.0  # until the head of a request is complete: since the connection was made, or since the answer before
    body: float = 60.0  # until the rest of it is
    unread: float = 30.0  # for which a client may leave an answer unread
    idle: int = 5  # between two requests
    grace: float = 0.2  # in which a new connection is safe: its request may have arrived and not been read yet

    @classmethod
    def of_this_process(cls) -> Limits:
        """Half of the file descriptors are left to models, data and the rest of the process."""
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return cls() if soft == resource.RLIM_INFINITY else cls(connections=max(4, min(MOST, soft // 2)))

    def of(self, stage: Stage) -> float:
        """An answer may take as long as it needs: the queue of work is bounded."""
        return {"head": self.head, "body": self.body, "unread": self.unread}.get(stage, float("inf"))


class Connection(H11Protocol):
    """uvicorn's, with answers to malformed requests that carry the headers of all answers."""

    def send_400_response(self, msg: str) -> None:
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):  # an answer has begun, so no other can be given
            self.transport.abort()
            return
        if self.cycle is not None:  # a request whose end is malformed: what the application says to it goes nowhere
            self.cycle.disconnected = True
        body = msg.encode()
        length = (b"content-length", str(len(body)).encode())
        headers = [(b"content-type", b"text/plain; charset=utf-8"), length, (b"connection", b"close"), *HEADERS]
        for event in (h11.Response(status_code=400, headers=headers), h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    @property
    def stage(self) -> Stage:
        if self.transport.is_closing() or self.flow.write_paused:
            return "unread"
        if self.cycle is None or self.cycle.response_complete:
            return "head"
        return "body" if self.cycle.more_body else "answering"


@dataclass
class Watch:
    """Every open connection with its stage, and since when it is in that."""

    connections: Collection[Connection]
    limits: Limits
    _since: dict[Connection, tuple[object, float]] = field(default_factory=dict)

    def close_overdue(self, now: float) -> None:
        for connection, since in self._look(now).items():
            if now - since > self.limits.of(connection.stage):
                connection.transport.abort()

    def make_room(self, now: float) -> bool:
        """Close one connection that keeps the server waiting; False if there is none."""
        since = self._look(now)
        waiting = [one for one in since if one.stage != "answering" and now - since[one] >= self.limits.grace]
        if waiting:
            held = Counter(_address(one) for one in since)
            max(waiting, key=lambda one: (held[_address(one)], now - since[one])).transport.abort()
        return bool(waiting)

    def _look(self, now: float) -> dict[Connection, float]:
        """A stage begins when it is first seen; the request before and the next are different stages of the same name."""
        stages = {one: (one.stage, one.cycle) for one in self.connections}
        before = {one: seen for one, seen in self._since.items() if seen[0] == stages.get(one)}
        self._since = {one: before.get(one, (stage, now)) for one, stage in stages.items()}
        return {one: since for one, (_, since) in self._since.items()}


def _address(connection: Connection) -> str:
    return connection.client[0] if connection.client else ""
