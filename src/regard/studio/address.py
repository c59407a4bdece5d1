"""Where studio listens, by which names it may be called, and the key that opens it: checked before anything is served."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

from regard.errors import UserError
from regard.files import read_text
from regard.studio.door import SHORTEST_KEY
from regard.studio.guard import LOCAL, host_name, is_loopback

VARIABLE = "REGARD_STUDIO_KEY"
EVERY = ("0.0.0.0", "::")  # address of this machine


def allowed_hosts(host: str, port: int, also: Sequence[str] = ()) -> frozenset[str]:
    """The names that requests may use; the address at which one arrives is allowed besides (`guard`)."""
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
    """The key of a file, or of the environment; on the command line everybody on the machine could read it."""
    if file is None:
        return _checked(environment[VARIABLE], VARIABLE) if environment.get(VARIABLE) else None
    return _checked(read_text(file, 4096).strip("\r\n"), f"--key-file {file}")


def url(host: str, port: int) -> str:
    """What to type into a browser; of all addresses at once, the machine's name."""
    name = socket.gethostname() if host in EVERY else host
    return f"http://{f'[{name}]' if ':' in name else name}:{port}/"


def make_key() -> str:
    """For a public address that was given none."""
    return secrets.token_urlsafe(18)


def readable_by_others(file: Path) -> bool:
    return bool(file.stat().st_mode & 0o077)


def _checked(key: str, where: str) -> str:
    if len(key) < SHORTEST_KEY:
        raise UserError(f"the key in {where} has {len(key)} characters; give at least {SHORTEST_KEY}, for others could guess it.")
    if not key.isprintable():
        raise UserError(f"the key in {where} has a line break or another control character; give one line of text.")
    return key


def _own_names() -> set[str]:
    """As machines in the same network call this one."""
    name = (host_name(socket.gethostname()) or "").lower()
    short = name.partition(".")[0]
    return {name, short, f"{short}.local"} if short else set()
