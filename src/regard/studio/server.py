"""uvicorn, fed with connections by ourselves: one at a time, never more than there is room for, none for ever.

uvicorn alone accepts whatever comes, up to the last file descriptor, and waits for ever for what an unfinished request has left
to say. Here a connection is accepted once there is room for it, and `connections.Watch` decides who makes room. When the server
is stopped, what waits for an answer is told so, and nobody is waited for: not for a slow client, not for a thread that is stuck.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import cast

import uvicorn

from regard.studio.connections import Connection, Limits, Watch
from regard.studio.guard import Asgi

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
                proxy_headers=False,  # nobody may say that it is somebody else
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
            try:
                accepted, _ = await loop.sock_accept(self.listener)
            except ConnectionAbortedError:  # gone before it was taken
                continue
            except OSError as error:  # other parts of the process hold all descriptors
                if not complained:
                    log.warning("studio cannot take a connection (%s); it goes on as soon as it can.", error.strerror)
                complained = True
                self._watch.make_room(loop.time())
                await asyncio.sleep(10 * PAUSE)
                continue
            try:
                await loop.connect_accepted_socket(self._connection, accepted)
            except OSError:
                accepted.close()

    def _connection(self) -> Connection:
        return Connection(self.config, self.server_state, self.lifespan.state)
