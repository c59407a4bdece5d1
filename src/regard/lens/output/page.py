"""One-file pages: a screen of studio with its data inside. It needs no network and runs nothing but its own script.

The screen's modules (`studio/static`) are joined to one script: each becomes a function that returns what it exports. Data may
hold any text: it travels as JSON in which no character can end a script element, the script shows it only as text, and the page's
own policy names by hash the one script and the one style it may use.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from html import escape
from importlib.resources import files

_IMPORT = re.compile(r'^import \{ ([^}]*) \} from "([^"]+)";\n', re.M)
_EXPORT = re.compile(r"^export ((?:async )?(?:const|function|class) (\w+))", re.M)
_UNSAFE = {character: f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}
STYLES = ("base.css", "parts.css", "screens.css")
TEMPLATE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body class="one-file">
<header id="bar"></header>
<main id="screen" class="head" tabindex="-1"></main>
<div id="said" role="status" aria-live="polite"></div>
<noscript><p>This page draws with a script of its own. Allow it, or save the picture as PNG or SVG.</p></noscript>
<script type="application/json" id="data">{data}</script>
<script>{script}</script>
</body>
</html>
"""


def page(entry: str, title: str, data: Mapping[str, object]) -> bytes:
    """Return the page that `entry`, a module of studio's, draws from this data; title and data are shown as text."""
    style, script = "".join(map(_asset, STYLES)), bundle(entry)
    policy = (
        f"default-src 'none'; script-src '{digest(script)}'; style-src '{digest(style)}'; base-uri 'none'; form-action 'none'"
    )
    filled = TEMPLATE.format(policy=policy, title=escape(title), style=style, data=inert(data), script=script)
    return filled.encode("utf-8", "backslashreplace")


def bundle(entry: str) -> str:
    """Join a module of studio's and all that it imports to one script without imports."""
    modules: dict[str, str] = {}
    _add(entry, modules)
    return '"use strict";\nconst modules = {};\n' + "\n".join(modules.values())


def _add(path: str, modules: dict[str, str]) -> None:
    source = _asset(path)

    def taken(found: re.Match[str]) -> str:
        parts = path.split("/")[:-1]
        for step in found[2].split("/"):
            parts = parts[:-1] if step == ".." else parts if step == "." else [*parts, step]
        if (wanted := "/".join(parts)) not in modules:
            _add(wanted, modules)
        return f"const {{ {found[1].replace(' as ', ': ')} }} = modules[{wanted!r}];\n"

    body = _IMPORT.sub(taken, source)
    names = [found[2] for found in _EXPORT.finditer(body)]
    body = _EXPORT.sub(r"\1", body)
    modules[path] = f"modules[{path!r}] = (() => {{\n{body}return {{ {', '.join(names)} }};\n}})();\n"


def _asset(path: str) -> str:
    return (files("regard") / "studio" / "static" / path).read_text(encoding="utf-8")


def digest(source: str) -> str:
    """Return the hash of a script or a style as a policy names it."""
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode("utf-8")).digest()).decode("ascii")


def inert(data: Mapping[str, object]) -> str:
    """Return data as JSON in which no character can end the element that holds it."""
    written = json.dumps(data, ensure_ascii=False)
    return "".join(_UNSAFE.get(character, character) for character in written)
