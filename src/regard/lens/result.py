"""Results of lens: each prints itself, draws itself, gives its numbers, and is saved as PNG, SVG, JSON or one page.

The page needs no network and runs nothing: the picture is an image inside of it, which no browser executes, the lines are text,
and the numbers are JSON in which no character can end the element that holds them. Its policy allows these and no more.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from matplotlib.figure import Figure
from torch import Tensor

from regard.lens.output.page import digest, inert
from regard.lens.output.save import check_suffix, store
from regard.lens.plots.render import render_figure

__all__ = ["LensResult", "NotebookView", "check_suffix", "fragment", "html", "save"]

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
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<h1>{title}</h1>
{body}
<footer>Attention says where a model looked, not why it answered.</footer>
<script type="application/json" id="numbers">{numbers}</script>
</body>
</html>
"""


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
    """Shows a result of lens in a notebook."""

    def _repr_html_(self: LensResult) -> str:
        return fragment(self)


def save(shown: LensResult, path: Path) -> None:
    """Save a result as the ending of `path` says: .png, .svg, .json or .html."""
    path = Path(path)
    check_suffix(path)
    store(_RENDERERS[path.suffix.lower()](shown), path)


def html(shown: LensResult) -> str:
    """One page in one file."""
    policy = f"default-src 'none'; img-src data:; style-src '{digest(STYLE)}'; base-uri 'none'; form-action 'none'"
    parts = {"policy": policy, "style": STYLE, "title": escape(shown.lines()[0])}
    return PAGE.format(**parts, body=fragment(shown), numbers=inert(json.loads(_numbers(shown))))


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


_RENDERERS: dict[str, Callable[[LensResult], bytes]] = {
    ".png": lambda shown: render_figure(shown.figure, "png"),
    ".svg": lambda shown: render_figure(shown.figure, "svg"),
    ".html": lambda shown: shown.page() if hasattr(shown, "page") else html(shown).encode("utf-8", "backslashreplace"),
    ".json": _numbers,
}
