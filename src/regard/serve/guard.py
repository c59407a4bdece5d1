"""Access control around the application: host, origin, key and size of every request, before anything of it is read.

Without keys the server listens to this machine alone, and pages in a browser of this machine are kept out as studio keeps them
out: by the Host and Origin headers. With keys, every request but those for /health and /ready needs one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

from regard.serve.errors import encode, error_content
from regard.serve.journal import record_of
from regard.serve.keys import Keys
from regard.studio.security import (
    LOCAL,
    Asgi,
    Entry,
    Receive,
    Scope,
    Send,
    arrived_at,
    bounded,
    host_name,
    read_headers,
    refused_length,
)

OPEN = ("/health", "/ready")  # for a balancer, which has no key
HEADERS = [(b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store")]
CLOSE = (b"connection", b"close")
NO_KEY = "this server needs a key; send the header 'Authorization: Bearer KEY'."
WRONG_KEY = "this key is not one of this server's; check it for a line that was cut off, or ask who runs the server."


@dataclass
class Guard:
    """An ASGI application around another."""

    app: Asgi
    keys: Keys | None
    largest: int  # bytes of a body
    draining: Callable[[], bool] = lambda: False  # whether the server is being stopped

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        given = read_headers(scope)
        if (refused := self._refusal(scope, given)) is not None:
            await answer(self._sending(send), refused)
            return
        await self.app(scope, bounded(receive, self.largest, f"A request may have {self.largest:,} bytes."), self._sending(send))

    def _refusal(self, scope: Scope, given: Mapping[str, str]) -> Entry | None:
        if (refused := self._without_key(scope, given)) is not None:
            return refused
        return refused_length(given, self.largest)

    def _without_key(self, scope: Scope, given: Mapping[str, str]) -> Entry | None:
        if self.keys is not None:
            number = self.keys.number(given.get("authorization", ""))
            record_of(scope).key = number or 0
            if number is not None or scope["path"] in OPEN:
                return None
            return Entry(401, WRONG_KEY if "authorization" in given else NO_KEY, ((b"www-authenticate", b"Bearer"),))
        host = given.get("host", "")
        if (name := host_name(host)) is None:
            return Entry(400, "The request has no Host header that could be read.", (CLOSE,))
        if name not in LOCAL and name != arrived_at(scope):
            return Entry(
                421, "This server has no keys, so it answers to localhost only; start it with --key-file for other names."
            )
        origin = given.get("origin")
        if origin is not None and origin.lower() not in (f"http://{host.lower()}", f"https://{host.lower()}"):
            return Entry(403, "A page of another site asked, and this server has no keys; start it with --key-file.")
        return None

    def _sending(self, send: Send) -> Send:
        async def sending(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                closing = [CLOSE] if self.draining() else []
                message = {**message, "headers": [*message.get("headers", []), *HEADERS, *closing]}
            await send(message)

        return sending


async def answer(send: Send, entry: Entry) -> None:
    code = "invalid_api_key" if entry.status == 401 else None
    body = encode(error_content(entry.status, entry.sentence, code))
    plain = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": entry.status, "headers": [*plain, *entry.headers]})
    await send({"type": "http.response.body", "body": body})
