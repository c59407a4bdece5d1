"""Seeded damage: bytes flipped, cut, repeated; JSON with values of other kinds, of absurd sizes, with control characters."""

from __future__ import annotations

import copy
import json
from random import Random
from typing import Any

ESCAPE = "\x1b]0;PWNED\x07\x1b[2J"
STRANGE: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 10**30, 1e308, -1e308, float("nan"), float("inf"), 0.5),
    *("", " ", "a", ESCAPE, "\n\t\r", "\u202e", "\ud800", "\0", "x" * 10_000, "../../etc/passwd", "/dev/zero", "1e9", "(a+)+$"),
    *([], {}, [[]], [None], {"": None}, ["a"] * 500, {"a": {"b": {"c": []}}}),
)


def nested(depth: int) -> Any:
    found: Any = []
    for _ in range(depth):
        found = [found]
    return found


def mutated_json(draw: Random, document: Any, changes: int = 2) -> str:
    """The document with a few values replaced, taken away, repeated or added, anywhere in it."""
    document = copy.deepcopy(document)
    for _ in range(changes):
        place = _somewhere(draw, document)
        if place is None:
            break
        parent, key = place
        deed = draw.randrange(5)
        if deed == 0:
            del parent[key]
        elif deed == 1 and isinstance(parent, dict):
            parent[draw.choice(["type", "id", "x", ESCAPE, "model_type", "vocab", "__proto__"])] = draw.choice(STRANGE)
        elif deed == 2 and isinstance(parent, list):
            parent.extend([parent[key]] * draw.choice([1, 50]))
        elif deed == 3:
            parent[key] = nested(draw.choice([5, 60, 300]))
        else:
            parent[key] = draw.choice(STRANGE)
    return json.dumps(document)


def _somewhere(draw: Random, document: Any) -> tuple[Any, Any] | None:
    """A container in the document and one of its keys; deeper ones as likely as those above."""
    node, found = document, None
    while isinstance(node, dict | list) and node:
        key = draw.choice(list(node)) if isinstance(node, dict) else draw.randrange(len(node))
        found, node = (node, key), node[key]
        if draw.random() < 0.3:
            break
    return found


def mutated_bytes(draw: Random, content: bytes) -> bytes:
    """The content cut off, with bits flipped, parts repeated, zeros or strange bytes put in."""
    size, deed = max(1, len(content)), draw.randrange(7)
    at = draw.randrange(size)
    if deed == 0:
        return content[:at]
    if deed == 1:
        changed = bytearray(content or b"\0")
        for _ in range(draw.choice([1, 3, 20])):
            changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
        return bytes(changed)
    if deed == 2:
        return (
            content[:at]
            + draw.choice([b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\r", b"\x1b[2J", b'"', b"\xed\xa0\x80"])
            + content[at:]
        )
    if deed == 3:
        return content[:at] + bytes(min(64, size - at)) + content[at + 64 :]
    if deed == 4:
        return content + content[:at]
    if deed == 5:
        return content[at:] + content[:at]
    return draw.randbytes(min(2000, size))
