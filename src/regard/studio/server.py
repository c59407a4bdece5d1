"""uvicorn, fed with connections by ourselves: one at a time, never more than there is room for, none for ever.

uvicorn alone accepts whatever comes, up to the last file descriptor, and waits for ever for what an unfinished request has left
to say. Here a connection is accepted once there is room for it, and `Watch` decides who makes room. When the server
is stopped, requests that wait get an answer that says so, and the server waits for nothing:
not for a slow client, not for a thread that is stuck.

How long a connection may keep the server waiting, and which one is closed when there are too many.

An unfinished request costs its sender nothing and the server a file descriptor; a few hundred of them would shut everyone
out. So every stage of a connection has a time limit, and there is a bound on connections: above it the client that has most of
them loses the one that has waited longest. A request that is complete and being answered is never closed.

Where studio listens, by which names it may be called, and the key that opens it: checked before anything is served.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import secrets
import socket
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, cast

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from regard.core.errors import UserError
from regard.core.files import read_text
from regard.studio.security import HEADERS, LOCAL, SHORTEST_KEY, Asgi, host_name, is_loopback

BACKLOG = 1024  # connections that the system holds for us while there is no room
PAUSE = 0.02  # seconds until it is asked again whether there is
LEAVE = 2  # seconds for answers that are on their way when the server is stopped
log = logging.getLogger("regard.studio")


class Server(uvicorn.Server):
    """An ASGI application, served on a socket that is bound already."""

    def __init__(self, app: Asgi, listener: socket.socket, limits: Limits | None = None) -> None:
        self.limits = limits or Limits.of_this_process()
        super().__init__(
            uvicorn.Config(
                app,
                http="h11",
                ws="none",
                loop="asyncio",
                log_level="error",  # what a client does wrong is no news for the terminal
                access_log=False,
                server_header=False,
                date_header=False,
                proxy_headers=False,  # a client cannot claim another address
                timeout_keep_alive=self.limits.idle,
                timeout_graceful_shutdown=2 * LEAVE,
            )
        )
        listener.setblocking(False)
        listener.listen(BACKLOG)  # who comes before we have begun waits, and is not refused
        self.listener = listener
        # uvicorn's own set: a connection enters it when it is made, and leaves it when it is lost
        self._open = cast(set[Connection], self.server_state.connections)
        self._watch = Watch(self._open, self.limits)
        self._tasks: list[asyncio.Task[None]] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=[])  # it listens to nothing by itself
        self._tasks = [asyncio.create_task(job()) for job in (self._accept, self._close_overdue)]

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.listener.close()
        for connection in list(self._open):
            if connection.stage == "head":
                connection.transport.abort()
        await self.lifespan.shutdown()  # the application lets go of those who wait; uvicorn would first wait for them itself
        asyncio.get_running_loop().call_later(LEAVE, self._abort_all)
        await super().shutdown(sockets=[])

    def _abort_all(self) -> None:
        for connection in list(self._open):
            connection.transport.abort()

    async def _close_overdue(self) -> None:
        loop, limits = asyncio.get_running_loop(), self.limits
        while True:
            await asyncio.sleep(min(limits.head, limits.body, limits.unread) / 8)
            self._watch.close_overdue(loop.time())

    async def _accept(self) -> None:
        loop, complained = asyncio.get_running_loop(), False
        while True:
            while len(self._open) >= self.limits.connections:
                await asyncio.sleep(0 if self._watch.make_room(loop.time()) else PAUSE)
            await self._readable()
            try:
                accepted, _ = self.listener.accept()
            except (BlockingIOError, ConnectionAbortedError):  # taken by another process, or gone before it was taken
                continue
            except OSError as error:  # other parts of the process hold all descriptors
                if not complained:
                    log.warning("studio cannot take a connection (%s); it goes on as soon as it can.", error.strerror)
                complained = True
                self._watch.make_room(loop.time())
                await asyncio.sleep(10 * PAUSE)
                continue
            accepted.setblocking(False)
            connected = asyncio.ensure_future(loop.connect_accepted_socket(self._connection, accepted))
            try:
                await asyncio.shield(connected)  # one that is taken is not lost when the server is stopped
            except OSError:
                accepted.close()

    async def _readable(self) -> None:
        """Wait for a connection without taking it: what is cancelled here loses none."""
        loop = asyncio.get_running_loop()
        there: asyncio.Future[None] = loop.create_future()
        handle = self.listener.fileno()
        loop.add_reader(handle, lambda: None if there.done() else there.set_result(None))
        try:
            await there
        finally:
            loop.remove_reader(handle)

    def _connection(self) -> Connection:
        return Connection(self.config, self.server_state, self.lifespan.state)


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

    kind = b"text/plain; charset=utf-8"  # of such an answer

    def refusal(self, sentence: str) -> bytes:
        return sentence.encode()

    def send_400_response(self, msg: str) -> None:
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):  # an answer has begun, so no other can be given
            self.transport.abort()
            return
        if self.cycle is not None:  # a request whose end is malformed: what the application says to it goes nowhere
            self.cycle.disconnected = True
        body = self.refusal(msg)
        length = (b"content-length", str(len(body)).encode())
        headers = [(b"content-type", self.kind), length, (b"connection", b"close"), *HEADERS]
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

    def close_idle(self, now: float, grace: float) -> None:
        """Close connections that have sent no request for `grace` seconds."""
        for connection, since in self._look(now).items():
            if connection.stage == "head" and now - since >= grace:
                connection.transport.close()

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


VARIABLE = "REGARD_STUDIO_KEY"
EVERY = ("0.0.0.0", "::")  # address of this machine


def allowed_hosts(host: str, port: int, also: Sequence[str] = ()) -> frozenset[str]:
    """The names that requests may use; the address at which one arrives is allowed besides (`Guard`)."""
    if not 0 <= port <= 65535:
        raise UserError(f"--port {port} is not a port; give a number from 1 to 65535, or 0 for any that is free.")
    for name in also:
        if _named(name) is None:
            raise UserError(f"--allow-host {name!r} is no host name; give one without http:// and port, such as lab.example.org.")
    given = {_named(name) or "" for name in (host, *also)}
    own = set() if is_loopback(host) else _own_names()
    return (LOCAL | given | own) - {"", *EVERY}


def _named(host: str) -> str | None:
    """A name, or an address with or without the brackets that IPv6 has in a URL."""
    bare = host.strip("[]")
    return host_name(f"[{bare}]" if ":" in bare else bare)


def find_key(file: Path | None, environment: Mapping[str, str]) -> str | None:
    """Return the key of a file or of the environment; on the command line any user of the machine could read it."""
    if file is None:
        return check_key(environment[VARIABLE], VARIABLE) if environment.get(VARIABLE) else None
    return check_key(read_text(file, 4096).strip("\r\n"), f"--key-file {file}")


def url(host: str, port: int) -> str:
    """Return the address to type into a browser; for all addresses at once, the machine's name."""
    name = socket.gethostname() if host in EVERY else host
    return f"http://{f'[{name}]' if ':' in name else name}:{port}/"


def make_key() -> str:
    """Return a random key, for a public address that was given none."""
    return secrets.token_urlsafe(18)


def readable_by_others(file: Path) -> bool:
    return bool(file.stat().st_mode & 0o077)


def check_key(key: str, where: str) -> str:
    if len(key) < SHORTEST_KEY:
        raise UserError(f"the key in {where} has {len(key)} characters; give at least {SHORTEST_KEY}, for others could guess it.")
    if not key.isprintable():
        raise UserError(f"the key in {where} has a line break or another control character; give one line of text.")
    return key


def _own_names() -> set[str]:
    """Return the names by which machines in the same network call this one."""
    name = (host_name(socket.gethostname()) or "").lower()
    short = name.partition(".")[0]
    return {name, short, f"{short}.local"} if short else set()


def bind(host: str, port: int, who: str) -> socket.socket:
    """Return a bound socket; a port in use is refused in one sentence."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(family)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
    except (OSError, OverflowError) as error:
        found.close()
        raise UserError(
            f"{who} cannot listen on {host}:{port} ({error}); give another --port, or 0 for any that is free."
        ) from None
    return found
