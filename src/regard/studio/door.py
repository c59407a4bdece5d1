"""The door of a studio that has a key: who has typed it is known by a cookie, and who types wrong ones waits longer and longer.

The key comes in the address that was printed (?key=...) or in the body of a form, never back out: the cookie holds a token that
was drawn when the server started. So nobody is locked out who is in already, whatever others try from the same address.
"""

from __future__ import annotations

import hmac
import ipaddress
import math
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

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
    """What somebody without the cookie is answered: a status, a sentence, and headers."""

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
    """Who has one IPv6 address has the 2^64 of its network as well."""
    try:
        address = ipaddress.ip_address(client.partition("%")[0])
    except ValueError:
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
