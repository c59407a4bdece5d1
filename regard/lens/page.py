"""Attention as one page to explore: a file that needs no network and runs nothing but its own script.

Tokens come from data and may hold anything. They travel as JSON in which no character can end a script element, the
script shows them only as text, and the page's own policy names by hash the one script and the one style it may use.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html import escape
from importlib.resources import files

import numpy as np

from regard.lens.alignment import Alignment
from regard.lens.glyphs import sentence, visible
from regard.lens.lines import colours

STEPS = 65535  # weights travel as 16-bit fractions of one: 48 heads of 60 × 60 take half a megabyte

_SCRIPTS = ("page_views.js", "page_layout.js", "page_draw.js", "page_events.js")
_SLOT = re.compile(r"\{\{(\w+)\}\}")
_UNSAFE = {character: f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}


def html(alignment: Alignment) -> bytes:
    style, script = _asset("page.css"), "\n".join(_asset(name) for name in _SCRIPTS)
    slots = {
        "policy": _policy(style, script),
        "title": escape(sentence(alignment.title)),
        "style": style,
        "data": _inert(_data(alignment)),
        "script": script,
    }
    # one pass over the template alone: what fills a slot is never searched for slots
    return _SLOT.sub(lambda slot: slots[slot[1]], _asset("page.html")).encode("utf-8")


def _asset(name: str) -> str:
    return (files("regard.lens") / name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    return (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; base-uri 'none'; form-action 'none'"
    )


def _digest(source: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode("utf-8")).digest()).decode("ascii")


def _data(alignment: Alignment) -> dict[str, object]:
    steps = np.rint(alignment.weights.clip(0, 1) * STEPS).astype("<u2")
    return {
        "title": sentence(alignment.title),
        "layers": [visible(name) for name in alignment.layers],
        "heads": alignment.heads,
        "queries": [visible(token) for token in alignment.queries],
        "keys": [visible(token) for token in alignment.keys],
        "colours": colours(len(alignment.keys)),
        "steps": STEPS,
        "weights": base64.b64encode(steps.tobytes()).decode("ascii"),
    }


def _inert(data: dict[str, object]) -> str:
    written = json.dumps(data, ensure_ascii=False)
    return "".join(_UNSAFE.get(character, character) for character in written)
