"""Access control and response headers: every request passes here, before and after the rest.

The page is for the person at this machine. Other pages in the same browser could reach a port of it too: by name (DNS rebinding),
which the Host header gives away, or by posting to it, which Origin does. A public address needs a key besides (`Door`).

The door of a studio that has a key: who has typed it is known by a cookie, and who types wrong ones waits longer and longer.

The key comes in the address that was printed (?key=...) or in the body of a form, never back out: the cookie holds a token that
was drawn when the server started. So no session that is open is locked out, whatever others try from the same address.
"""

from __future__ import annotations

import hmac
import ipaddress
import math
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

from starlette.exceptions import HTTPException

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Asgi = Callable[[Scope, Receive, Send], Awaitable[None]]

LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]{2,45})\]|([A-Za-z0-9._-]{1,253}))(?::([0-9]{1,5}))?")
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
# Under no-referrer a browser would send the form with Origin: null, as another site's.
FORM_HEADERS = [
    *((n, v) for n, v in HEADERS if n not in (b"content-security-policy", b"referrer-policy")),
    (b"content-security-policy", POLICY.replace("form-action 'none'", "form-action 'self'").encode()),
    (b"referrer-policy", b"same-origin"),
]
CLOSE = ((b"connection", b"close"),)


@dataclass(frozen=True)
class Guard:
    """An ASGI application around another."""

    app: Asgi
    hosts: frozenset[str]  # names a request may use besides the address at which it arrived
    door: Door | None = None
    largest: int = 256 * 1024  # bytes of a body
    roomy: Mapping[str, int] = field(default_factory=dict)  # paths that take more

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            given = read_headers(scope)
            if (refused := self._refusal(scope, given)) is not None:
                await _answer(_guarded(send), refused)
            elif self.door is not None and (scope["path"] == FORM or not self.door.knows(given)):
                await _answer_at_the_door(scope, send, await _entry(self.door, scope, receive))
            else:
                await self.app(scope, bounded(receive, self._most(scope), _too_large(self._most(scope))), _guarded(send))

    def _refusal(self, scope: Scope, given: Mapping[str, str]) -> Entry | None:
        host = given.get("host", "")
        if (name := host_name(host)) is None:
            return Entry(400, "The request has no Host header that could be read.", CLOSE)
        if name not in self.hosts and name != arrived_at(scope):
            return Entry(421, "This page answers to its own address only; 'regard studio --allow-host NAME' allows another.")
        origin = given.get("origin")
        if origin is not None and origin.lower() not in (f"http://{host.lower()}", f"https://{host.lower()}"):
            return Entry(403, "Another site asked; only this page may.")
        if given.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return Entry(403, "Another site asked; only this page may.")
        return refused_length(given, self._most(scope))

    def _most(self, scope: Scope) -> int:
        return self.roomy.get(scope["path"], self.largest)


def refused_length(given: Mapping[str, str], most: int) -> Entry | None:
    """Return the answer to a request whose headers say two lengths, or one that is too large."""
    if "content-length" in given and "transfer-encoding" in given:  # a proxy could read another end than we do
        return Entry(400, "The request says its length in two ways; send Content-Length or Transfer-Encoding.", CLOSE)
    length = given.get("content-length", "0")
    if not re.fullmatch("[0-9]{1,18}", length) or int(length) > most:
        return Entry(413, _too_large(most))
    return None


def host_name(host: str) -> str | None:
    """The name of a Host header, without the port; [::1]:8000 is ::1. None for what is no host."""
    if (found := HOST.fullmatch(host)) is None or int(found[3] or 0) > 65535:
        return None
    address = _address(found[1] or found[2])
    return str(address) if address else None if found[1] else found[2].lower()


def is_loopback(host: str) -> bool:
    """Return whether a name or an address is that of this machine to itself."""
    return host == "localhost" or bool((address := _address(host)) and address.is_loopback)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return an address without its zone; None for what is none."""
    try:
        return ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None


def arrived_at(scope: Scope) -> str | None:
    """Return the address of this machine that the client connected to; an address, unlike a name, cannot be rebound."""
    address = _address((scope.get("server") or ("",))[0])
    return str(getattr(address, "ipv4_mapped", None) or address) if address else None


async def _entry(door: Door, scope: Scope, receive: Receive) -> Entry:
    """The key is taken from the address of the page, or from the form."""
    client = (scope.get("client") or ("",))[0]
    if scope["path"] == FORM and scope["method"] == "POST":
        return door.try_key(client, await _body(receive))
    return door.try_key(client, scope["query_string"] if scope["path"] == "/" else b"")


async def _body(receive: Receive) -> bytes:
    """Return the body up to the size of a form; a longer one has no key."""
    body = b""
    while len(body) <= LONGEST_FORM:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            return body
    return b""


def read_headers(scope: Scope) -> dict[str, str]:
    """A header given twice is as suspect as a wrong one, so its values are joined and match nothing."""
    found: dict[str, str] = {}
    for name, value in scope["headers"]:
        text = value.decode("latin-1")
        key = name.decode("latin-1").lower()
        found[key] = f"{found[key]}, {text}" if key in found else text
    return found


def _too_large(largest: int) -> str:
    return f"That is more than the {largest:,} bytes that are taken."


def bounded(receive: Receive, largest: int, refusal: str) -> Receive:
    """Bound bodies that do not say how long they are."""
    taken = 0

    async def receive_bounded() -> MutableMapping[str, Any]:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > largest:
            raise HTTPException(413, refusal)
        return message

    return receive_bounded


def _guarded(send: Send, headers: list[tuple[bytes, bytes]] = HEADERS) -> Send:
    async def guarded(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", []), *headers]}
        await send(message)

    return guarded


async def _answer_at_the_door(scope: Scope, send: Send, entry: Entry) -> None:
    """A form in place of the page; a sentence for the page's own questions."""
    if scope["path"] in ("/", FORM):
        await _answer(_guarded(send, FORM_HEADERS), entry, kind=b"text/html", text=PAGE.format(entry.sentence))
    else:
        await _answer(_guarded(send), entry)


async def _answer(send: Send, entry: Entry, kind: bytes = b"text/plain", text: str | None = None) -> None:
    body = (entry.sentence if text is None else text).encode()
    plain = [(b"content-type", kind + b"; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": entry.status, "headers": [*plain, *entry.headers]})
    await send({"type": "http.response.body", "body": body})


COOKIE = "regard_studio"
FORM = "/enter"  # where the form is sent
LONGEST_FORM = 4096  # bytes
SHORTEST_KEY = 12
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Regard studio</title><link rel="icon" href="data:,"></head>
<body><h1>Regard studio</h1>
<p role="status">{}</p>
<form method="post" action="/enter">
<label>Key <input name="key" type="password" autocomplete="current-password" autofocus required></label> <button>Enter</button>
</form>
</body></html>
"""


@dataclass
class Attempts:
    """Wrong keys by client: after the nth in a row it is not listened to for 2^(n-1) seconds, five minutes at most."""

    clock: Callable[[], float] = time.monotonic
    longest: float = 300.0  # seconds
    forgotten: float = 3600.0  # seconds without a try
    most: int = 4096  # clients remembered: the one that tried last, last
    _tried: OrderedDict[str, tuple[int, float]] = field(default_factory=OrderedDict)  # how many, and when the last

    def wait(self, client: str) -> float:
        """Seconds until this client is listened to."""
        count, last = self._of(client)
        return max(0.0, last + min(2.0 ** (count - 1), self.longest) - self.clock()) if count else 0.0

    def wrong(self, client: str) -> None:
        count, _ = self._of(client)
        self._tried[_network(client)] = (min(count + 1, 64), self.clock())
        self._tried.move_to_end(_network(client))
        if len(self._tried) > self.most:
            self._tried.popitem(last=False)

    def right(self, client: str) -> None:
        self._tried.pop(_network(client), None)

    def _of(self, client: str) -> tuple[int, float]:
        count, last = self._tried.get(_network(client), (0, 0.0))
        return (0, 0.0) if self.clock() - last > self.forgotten else (count, last)


@dataclass(frozen=True)
class Entry:
    """Answer to a request without the cookie: a status, a sentence, and headers."""

    status: int
    sentence: str
    headers: tuple[tuple[bytes, bytes], ...] = ()


@dataclass(frozen=True)
class Door:
    key: str
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    attempts: Attempts = field(default_factory=Attempts)

    def knows(self, headers: Mapping[str, str]) -> bool:
        return hmac.compare_digest(_cookie(headers.get("cookie", "")).encode(), self.token.encode())

    def try_key(self, client: str, query: bytes) -> Entry:
        """`query` is that of an address or a form; without a key in it, the key is asked for."""
        given = parse_qs(query.decode("latin-1")).get("key", [""])[0]
        if not given:
            return Entry(401, "This page needs its key: type it here, or open the address that was printed where it was started.")
        if (seconds := self.attempts.wait(client)) > 0:
            return _told_to_wait("Too many wrong keys came from your address", seconds)
        if hmac.compare_digest(given.encode(), self.key.encode()):
            self.attempts.right(client)
            kept = f"{COOKIE}={self.token}; HttpOnly; SameSite=Strict; Path=/"
            return Entry(303, "", ((b"location", b"/"), (b"set-cookie", kept.encode())))
        self.attempts.wrong(client)
        return _told_to_wait("This is not the key", self.attempts.wait(client), status=401)


def _told_to_wait(sentence: str, seconds: float, status: int = 429) -> Entry:
    whole = max(1, math.ceil(seconds))
    again = f"{sentence}; try again in {whole} second{'s' * (whole != 1)}."
    return Entry(status, again, ((b"retry-after", str(whole).encode()),))


def _network(client: str) -> str:
    """Return the network of an address: an IPv6 client has all 2^64 addresses of its network."""
    address = _address(client)
    if address is None:
        return client
    if address.version == 4:
        return str(address)
    return str(address.ipv4_mapped or ipaddress.ip_network((int(address), 64), strict=False))


def _cookie(header: str) -> str:
    try:
        kept = SimpleCookie(header).get(COOKIE)
    except CookieError:
        return ""
    return "" if kept is None else kept.value
