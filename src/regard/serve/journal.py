"""One line of JSON for every request, on standard output: what was asked, by which key, how it ended and how long it took.

Texts are left out unless `--log-texts` is given.
"""

from __future__ import annotations

import json
import sys
import time
import uuid
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from regard.serve.errors import CLIENT_GONE
from regard.studio.security import Asgi, Receive, Scope, Send

FIELD = "regard.record"  # of an ASGI scope


@dataclass
class Record:
    """The log record of one request."""

    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    key: int = 0  # which line of the key file; 0: none
    route: str = "other"  # as the application names it, so that all unknown addresses count as one
    model: str | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    streamed: bool = False
    first_token: float | None = None  # seconds
    body: Any = None  # only with --log-texts
    outputs: list[str] | None = None


Observer = Callable[[Record, int, float], None]
"""Called with each record, its status and its seconds, once the answer has been sent or given up."""


def record_of(scope: Scope) -> Record:
    """Return the record of a request."""
    record: Record = scope.setdefault(FIELD, Record())
    return record


def write_line(line: str) -> None:
    """Write a line at once, so that several processes do not mix theirs. The reader of the log may have closed it."""
    with suppress(OSError):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


@dataclass
class Journal:
    """An ASGI application around another."""

    app: Asgi
    observers: list[Observer]
    texts: bool = False
    write: Callable[[str], None] | None = write_line  # None: nothing is logged
    clock: Callable[[], float] = time.monotonic

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        record, status, began = record_of(scope), CLIENT_GONE, self.clock()

        async def sending(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message.get("headers", []), (b"x-request-id", record.id.encode())]}
            await send(message)

        try:
            await self.app(scope, receive, sending)
        finally:
            seconds = self.clock() - began
            for observe in self.observers:
                observe(record, status, seconds)
            if self.write is not None:
                self.write(self._line(scope, record, status, seconds))

    def _line(self, scope: Scope, record: Record, status: int, seconds: float) -> str:
        found: dict[str, Any] = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "id": record.id,
            "method": scope["method"][:16],
            "route": record.route,
            "status": status,
            "seconds": round(seconds, 6),
            "model": record.model,
            "key": record.key,
            "prompt_tokens": record.prompt_tokens,
            "completion_tokens": record.completion_tokens,
            "streamed": record.streamed,
        }
        if self.texts:
            found |= {"body": record.body, "outputs": record.outputs}
        return json.dumps(found, ensure_ascii=True, allow_nan=False)
