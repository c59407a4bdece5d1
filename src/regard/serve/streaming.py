"""Server-sent events: one for each piece of text, until the work ends or the client goes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from starlette.responses import Response

from regard.serve.errors import encode, failure
from regard.studio.security import Receive, Scope, Send

DONE = b"data: [DONE]\n\n"


def event(content: Any) -> bytes:
    return b"data: " + encode(content) + b"\n\n"


class EventStream(Response):
    """An answer that is sent while it is made.

    Sending waits for a slow reader, so no more than the text itself is ever held for one. `give_up` is called when the client
    has gone or the stream has failed.
    """

    media_type = "text/event-stream"

    def __init__(self, events: AsyncIterator[bytes], give_up: Callable[[], None]) -> None:
        super().__init__(headers={"x-accel-buffering": "no"})
        del self.headers["content-length"]
        self.events, self.give_up = events, give_up

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.ensure_future(self._send(send))
        gone = asyncio.ensure_future(_disconnected(receive))
        try:
            await asyncio.wait({sending, gone}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            self.give_up()
            for task in (sending, gone):
                task.cancel()
            await asyncio.gather(sending, gone, return_exceptions=True)

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        try:
            async for body in self.events:
                await send({"type": "http.response.body", "body": body, "more_body": True})
        except Exception as error:  # the status has been sent, so the error is an event
            _, content, _ = failure(error)
            await send({"type": "http.response.body", "body": event(content) + DONE, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
