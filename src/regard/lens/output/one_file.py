"""One page in one file: it needs no network and runs nothing but its own script.

What it shows comes from data and may hold anything. It travels as JSON in which no character can end a script element, the
script shows it only as text, and the page's own policy names by hash the one script and the one style it may use.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files

_SLOT = re.compile(r"\{\{(\w+)\}\}")
_UNSAFE = {character: f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}


def page(body: str, styles: Sequence[str], scripts: Sequence[str], title: str, data: Mapping[str, object]) -> bytes:
    """A body, a file beside this one as styles and scripts are, in the frame of all pages; title and data are shown as text."""
    style, script = "".join(map(_asset, styles)), "\n".join(map(_asset, scripts))
    slots = {
        "policy": _policy(style, script),
        "title": escape(title),
        "style": style,
        "data": inert(data),
        "script": script,
    }
    template = _asset("offline.html").replace("{{body}}\n", _asset(body))
    # one pass over the template alone: what fills a slot is never searched for slots
    return _SLOT.sub(lambda slot: slots[slot[1]], template).encode("utf-8")


def _asset(name: str) -> str:
    return (files("regard.lens.output") / "static" / name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    return f"default-src 'none'; script-src '{digest(script)}'; style-src '{digest(style)}'; base-uri 'none'; form-action 'none'"


def digest(source: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode("utf-8")).digest()).decode("ascii")


def inert(data: Mapping[str, object]) -> str:
    written = json.dumps(data, ensure_ascii=False)
    return "".join(_UNSAFE.get(character, character) for character in written)
