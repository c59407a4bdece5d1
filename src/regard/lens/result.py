"""Results of lens: each prints itself, draws itself, gives its numbers, and is saved as PNG, SVG, JSON or one page.

A page is one file that needs no network. Of most results it runs nothing: the picture is an image inside of it, which no browser
executes, the lines are text, and the numbers are JSON in which no character can end the element that holds them. Its policy
allows these and no more.

Some are a screen of studio with its data inside, and run nothing but its own script. The screen's modules (`studio/static`) are
joined to it: each becomes a function that returns what it exports. Data may hold any text: it travels as such JSON, the script
shows it only as text, and the policy names by hash the one script and the one style that the page may use.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from matplotlib.figure import Figure
from torch import Tensor

from regard.core.errors import UserError
from regard.lens.plots.render import render_figure

SUFFIXES = (".png", ".svg", ".html", ".json")
_IMPORT = re.compile(r'^import \{ ([^}]*) \} from "([^"]+)";\n', re.M)
_EXPORT = re.compile(r"^export ((?:async )?(?:const|function|class) (\w+))", re.M)
_UNSAFE = {character: f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}
STYLES = ("base.css", "parts.css", "screens.css")  # of studio
STYLE = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1b2430; --muted: #5d6875; }
@media (prefers-color-scheme: dark) { :root { --paper: #12161b; --ink: #e4e9ee; --muted: #95a1ae; } }
body { margin: 0 auto; padding: 28px 32px; max-width: 1760px; background: var(--paper); color: var(--ink);
  font: 15px/1.45 "DejaVu Sans", system-ui, sans-serif; }
h1 { font-size: 22px; font-weight: 500; overflow-wrap: anywhere; }
img { max-width: 100%; height: auto; background: #ffffff; }
pre { font: 13px/1.4 "DejaVu Sans Mono", ui-monospace, monospace; overflow-x: auto; }
footer { color: var(--muted); font-size: 13px; }
"""
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; {policy}; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
{body}
</html>
"""
RESULT = """<body>
<h1>{title}</h1>
{shown}
<footer>Attention says where a model looked, not why it answered.</footer>
<script type="application/json" id="numbers">{numbers}</script>
</body>"""
SCREEN = """<body class="one-file">
<header id="bar"></header>
<main id="screen" class="head" tabindex="-1"></main>
<div id="said" role="status" aria-live="polite"></div>
<noscript><p>This page draws with a script of its own. Allow it, or save the picture as PNG or SVG.</p></noscript>
<script type="application/json" id="data">{data}</script>
<script>{script}</script>
</body>"""


class LensResult(Protocol):
    """A result of lens."""

    def lines(self) -> list[str]:
        """Return lines for a terminal; the first says what the result is."""
        ...

    def figure(self) -> Figure: ...

    def as_dict(self) -> dict[str, Any]:
        """Every number, ready for JSON; None where there is none."""
        ...


class NotebookView:
    """Shows a result of lens in a notebook, and gives the fields of a dataclass as its numbers."""

    FORMAT = ""

    def _repr_html_(self: LensResult) -> str:
        return fragment(self)

    def as_dict(self) -> dict[str, Any]:
        """Return every field by its name, without the letters of its dimensions."""
        fields = asdict(self)  # type: ignore[call-overload]  # every result that has no other numbers is a dataclass
        return {"format": self.FORMAT, **{re.sub("_[A-Z0-9]+$", "", name): value for name, value in fields.items()}}


def check_suffix(path: Path) -> None:
    """Refuse an ending that `save` does not know; to be called before a model is loaded."""
    if path.suffix.lower() not in SUFFIXES:
        raise UserError(f"{path} must end in one of {', '.join(SUFFIXES)}, which say what kind of picture to draw.")


def save(shown: LensResult, path: Path) -> None:
    """Save a result as the ending of `path` says: .png, .svg, .json or .html."""
    path = Path(path)
    check_suffix(path)
    match path.suffix.lower():
        case ".json":
            content = _numbers(shown)
        case ".html":
            content = shown.page() if hasattr(shown, "page") else html(shown).encode("utf-8", "backslashreplace")
        case suffix:
            content = render_figure(shown.figure, "png" if suffix == ".png" else "svg")
    store(content, path)


def store(picture: bytes, path: Path) -> None:
    try:
        path.write_bytes(picture)
    except OSError as problem:
        raise UserError(f"{path} cannot be written: {problem.strerror}. Give a file in a folder that exists.") from None


def html(shown: LensResult) -> str:
    """One page in one file."""
    title = escape(shown.lines()[0])
    body = RESULT.format(title=title, shown=fragment(shown), numbers=inert(json.loads(_numbers(shown))))
    return PAGE.format(policy=f"img-src data:; style-src '{digest(STYLE)}'", title=title, style=STYLE, body=body)


def fragment(shown: LensResult) -> str:
    """Picture and lines, for a page or a notebook."""
    picture = base64.b64encode(render_figure(shown.figure, "svg")).decode("ascii")
    first, *rest = shown.lines()
    image = f'<img alt="{escape(first)}" src="data:image/svg+xml;base64,{picture}">'
    return f"<figure>{image}</figure>\n<pre>{escape(chr(10).join([first, *rest]))}</pre>"


def _numbers(shown: LensResult) -> bytes:
    return (json.dumps(shown.as_dict(), allow_nan=False, default=_plain) + "\n").encode("ascii")


def _plain(value: object) -> Any:
    """Arrays and tensors as lists."""
    if isinstance(value, np.ndarray | np.generic | Tensor):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no place in JSON")


def page(entry: str, title: str, data: Mapping[str, object]) -> bytes:
    """Return the page that `entry`, a module of studio's, draws from this data; title and data are shown as text."""
    style, script = "".join(map(_asset, STYLES)), bundle(entry)
    policy, body = f"script-src '{digest(script)}'; style-src '{digest(style)}'", SCREEN.format(data=inert(data), script=script)
    filled = PAGE.format(policy=policy, title=escape(title), style=style, body=body)
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
