"""Who may ask, and what the browser may do with the answer: every request passes here, before and after the rest.

The page is for the person at this machine. Other pages in the same browser could reach a port of it too: by name (DNS rebinding),
which the Host header gives away, or by posting to it, which Origin does. A public address needs a key, told once in the address
(?key=...) and kept as a cookie that no script can read and no other site can send.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

from starlette.exceptions import HTTPException

from regard.errors import UserError

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Asgi = Callable[[Scope, Receive, Send], Awaitable[None]]

COOKIE = "regard_studio_key"
SHORTEST_KEY = 12
POLICY = (
    "default-src 'self'; img-src 'self' blob: data:; object-src 'none'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=()"),
    (b"cache-control", b"no-store"),
]


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class Guard:
    """An ASGI application around another."""

    app: Asgi
    hosts: frozenset[str] | None  # names a request may use; None where the key alone decides
    key: str | None = None
    largest: int = 256 * 1024  # bytes of a body
    roomy: Mapping[str, int] = field(default_factory=dict)  # paths that take more

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            refused = self._refusal(scope) or (None if self.key is None else self._key_refusal(scope))
            if refused is not None:
                await _answer(_guarded(send), *refused)
            else:
                await self.app(scope, _bounded(receive, self._most(scope)), _guarded(send))

    def _refusal(self, scope: Scope) -> tuple[int, str, list[tuple[bytes, bytes]]] | None:
        given = _headers(scope)
        host = given.get("host", "")
        if self.hosts is not None and _name(host) not in self.hosts:
            return 421, "This page answers to its own address only.", []
        origin = given.get("origin")
        if origin is not None and urlsplit(origin).netloc != host:
            return 403, "Another site asked; only this page may.", []
        if given.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return 403, "Another site asked; only this page may.", []
        length = given.get("content-length", "0")
        if not length.isdigit() or int(length) > self._most(scope):
            return 413, _too_large(self._most(scope)), []
        return None

    def _most(self, scope: Scope) -> int:
        return self.roomy.get(scope["path"], self.largest)

    def _key_refusal(self, scope: Scope) -> tuple[int, str, list[tuple[bytes, bytes]]] | None:
        """Let in with the cookie; with the key in the address, sent to the same place with the cookie set."""
        assert self.key is not None
        if self._is_key(_cookie(_headers(scope).get("cookie", ""))):
            return None
        typed = parse_qs(scope["query_string"].decode("latin-1")).get("key", [""])[0]
        if scope["path"] == "/" and self._is_key(typed):
            kept = f"{COOKIE}={quote(self.key, safe='')}; HttpOnly; SameSite=Strict; Path=/"
            return 303, "", [(b"location", b"/"), (b"set-cookie", kept.encode())]
        return 401, "This page needs its key: open the address with ?key=... that was printed where it was started.", []

    def _is_key(self, given: str) -> bool:
        assert self.key is not None
        return hmac.compare_digest(given.encode(), self.key.encode())


def check_address(host: str, port: int, key: str | None) -> frozenset[str] | None:
    """The host names that requests may use; a public address is refused without a key."""
    if not 0 <= port <= 65535:
        raise UserError(f"--port {port} is not a port; give a number from 1 to 65535, or 0 for any that is free.")
    if key is not None and len(key) < SHORTEST_KEY:
        raise UserError(f"--key has {len(key)} characters; give at least {SHORTEST_KEY}, for others could guess it.")
    if is_loopback(host):
        return frozenset({"localhost", "127.0.0.1", "::1", host})
    if key is None:
        raise UserError(
            f"--host {host} can be reached from other machines; give --key KEY with at least {SHORTEST_KEY} characters, or leave "
            "--host out to serve this machine alone."
        )
    return None


def _headers(scope: Scope) -> dict[str, str]:
    """A header given twice is as suspect as a wrong one, so its values are joined and match nothing."""
    found: dict[str, str] = {}
    for name, value in scope["headers"]:
        text = value.decode("latin-1")
        key = name.decode("latin-1").lower()
        found[key] = f"{found[key]}, {text}" if key in found else text
    return found


def _name(host: str) -> str:
    """Without the port; [::1]:8000 is ::1."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower()


def _cookie(header: str) -> str:
    try:
        kept = SimpleCookie(header).get(COOKIE)
    except CookieError:
        return ""
    return "" if kept is None else unquote(kept.value)


def _too_large(largest: int) -> str:
    return f"That is more than the {largest:,} bytes this page takes."


def _bounded(receive: Receive, largest: int) -> Receive:
    """For bodies that do not say how long they are."""
    taken = 0

    async def bounded() -> MutableMapping[str, Any]:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > largest:
            raise HTTPException(413, _too_large(largest))
        return message

    return bounded


def _guarded(send: Send) -> Send:
    async def guarded(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", []), *HEADERS]}
        await send(message)

    return guarded


async def _answer(send: Send, status: int, sentence: str, headers: list[tuple[bytes, bytes]]) -> None:
    body = sentence.encode()
    plain = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": [*plain, *headers]})
    await send({"type": "http.response.body", "body": body})
