"""uvicorn behind the watch of `studio/server.py`, which bounds connections and every stage of one; and a graceful end.

After SIGTERM the server takes every connection that the system has accepted for it, and no others. Whatever request has begun to
arrive is answered, with `Connection: close`; then the process ends with exit code 0.
"""

from __future__ import annotations

import asyncio
import resource
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from regard.serve.app import api_behind
from regard.serve.errors import encode, error_content
from regard.serve.journal import Journal
from regard.serve.limits import Limits
from regard.studio.server import Connection as StudioConnection
from regard.studio.server import Limits as Stages
from regard.studio.server import Server as StudioServer

MOMENT = 0.02  # seconds between two looks at what is left
HEAD = 2.0  # seconds in which a connection that was just taken may send its request
STOPS = (signal.SIGTERM, signal.SIGINT)


class Connection(StudioConnection):
    """A malformed request is answered as JSON."""

    kind = b"application/json"

    def refusal(self, sentence: str) -> bytes:
        return encode(error_content(400, f"the request is no HTTP that can be read ({sentence}).", "invalid_http"))


class Server(StudioServer):
    """An application, served on a socket that is bound already. `reload` is called at SIGHUP, in a thread."""

    def __init__(self, app: Journal, listener: socket.socket, limits: Limits, reload: Callable[[], None] | None = None) -> None:
        super().__init__(app, listener, stages_of(limits))
        self.api, self.grace, self.reload = api_behind(app), limits.grace, reload

    def _connection(self) -> Connection:
        return Connection(self.config, self.server_state, self.lifespan.state)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        loop = asyncio.get_running_loop()
        self.api.draining = True
        self._tasks[0].cancel()  # which accepts
        await asyncio.gather(self._tasks[0], return_exceptions=True)
        await self._take_accepted()
        self.listener.close()
        ends = loop.time() + self.grace
        while self._open and loop.time() < ends and not self.force_exit:
            self._watch.close_idle(loop.time(), HEAD)
            await asyncio.sleep(MOMENT)
        await super().shutdown(sockets=[])

    async def _take_accepted(self) -> None:
        """Take the connections that wait in the system's queue: their clients know them as open."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = self.listener.accept()
            except OSError:  # none is left
                return
            accepted.setblocking(False)
            try:
                await loop.connect_accepted_socket(self._connection, accepted)
            except OSError:
                accepted.close()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop at SIGTERM and SIGINT, and end as a program that has done its work: uvicorn would raise the signal again."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in STOPS}
        if self.reload is not None:
            before[signal.SIGHUP] = signal.signal(signal.SIGHUP, self._hang_up)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _hang_up(self, number: int, frame: object) -> None:
        assert self.reload is not None
        threading.Thread(target=self.reload, name="reload", daemon=True).start()


def stages_of(limits: Limits) -> Stages:
    """Return the times of a connection's stages; half of the file descriptors are left to the rest of the process."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = limits.connections if soft == resource.RLIM_INFINITY else max(4, min(limits.connections, soft // 2))
    return Stages(most, head=limits.idle, body=limits.upload, unread=limits.unread, idle=max(1, int(limits.idle)))
