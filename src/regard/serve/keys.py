"""Keys of the HTTP interface: read from a file, compared in constant time, known to the engine by a number alone."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from pathlib import Path

from regard.core.errors import UserError
from regard.core.files import read_text
from regard.studio.server import check_key

LARGEST = 2**20  # bytes of a key file
SCHEME = "bearer"


@dataclass(frozen=True)
class Keys:
    """sha256 of each key, in the order of the file."""

    digests: tuple[bytes, ...]

    @classmethod
    def read(cls, path: Path) -> Keys:
        """Read a file with one key on each line; empty lines and lines that begin with # count for nothing."""
        lines = [line.strip() for line in read_text(path, LARGEST).splitlines()]
        found = [check_key(line, f"--key-file {path}") for line in lines if line and not line.startswith("#")]
        if not found:
            raise UserError(f"--key-file {path} has no key; write one on a line by itself, such as openssl rand -hex 24 prints.")
        return cls(tuple(dict.fromkeys(_digest(key) for key in found)))

    def number(self, header: str) -> int | None:
        """Return which key an Authorization header has, from 1; None where it has none of them.

        Every key is compared, and digests of one length are, so that the time says nothing about any key.
        """
        scheme, _, given = header.partition(" ")
        digest, found = _digest(given.strip()), 0
        for number, own in enumerate(self.digests, 1):
            found |= number * hmac.compare_digest(own, digest)
        return found if found and scheme.lower() == SCHEME else None


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "replace")).digest()
