"""Attention in a picture: save an alignment as PNG, SVG, HTML or JSON, by the ending of the file's name, or read it back.

A page and a sheet are for people; the JSON holds the numbers exactly, for another program or another day.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from regard.core.errors import UserError
from regard.core.files import GIB, read_bounded
from regard.lens.alignment import Alignment
from regard.lens.output.text import text
from regard.lens.plots.alignment import png, svg

__all__ = ["Alignment", "check_suffix", "read", "save", "store", "text"]

FORMAT = "regard.alignment.1"
LARGEST = GIB  # of what is read back: every head of every layer between two long texts


def check_suffix(path: Path) -> None:
    """Refuse an ending that `save` does not know; to be called before a model is loaded."""
    if path.suffix.lower() not in _RENDERERS:
        raise UserError(f"{path} must end in one of {', '.join(_RENDERERS)}, which say what kind of picture to draw.")


def save(alignment: Alignment, path: Path) -> None:
    """Writes the picture that the ending of `path` asks for: .png, .svg, .html or .json."""
    path = Path(path)
    check_suffix(path)
    store(_RENDERERS[path.suffix.lower()](alignment), path)


def store(picture: bytes, path: Path) -> None:
    try:
        path.write_bytes(picture)
    except OSError as problem:
        raise UserError(f"{path} cannot be written: {problem.strerror}. Give a file in a folder that exists.") from None


def read(path: Path) -> Alignment:
    """The alignment that `save` wrote as JSON, every weight as it was."""
    path = Path(path)
    try:
        found = json.loads(read_bounded(path, LARGEST).decode())
    except (ValueError, RecursionError) as problem:  # not UTF-8, not JSON, or nested to no end
        raise UserError(f"{path} is not JSON: {problem}. Give a file written with the ending .json.") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise UserError(f'{path} is JSON, but has no "format": "{FORMAT}". Give a file that Regard wrote.')
    try:
        return _alignment(found)
    except KeyError as missing:
        raise UserError(f"{path} holds no alignment: it has no {missing}.") from None
    except (TypeError, ValueError) as problem:
        raise UserError(f"{path} holds no alignment: {problem}") from None


def _alignment(found: dict[str, Any]) -> Alignment:
    names = [found[side] for side in ("queries", "keys", "layers")]
    if not all(isinstance(side, list) and all(isinstance(name, str) for name in side) for side in names):
        raise ValueError("queries, keys and layers must be lists of strings.")
    if not isinstance(found["title"], str):
        raise ValueError("the title must be a string.")
    queries, keys, layers = map(tuple, names)
    return Alignment(found["title"], queries, keys, np.asarray(found["weights"], dtype=np.float32), layers)


def _json(alignment: Alignment) -> bytes:
    # nine digits name a float32 and no other; ASCII keeps even a lone surrogate as it is
    rounded = [float(f"{weight:.9g}") for weight in alignment.weights.ravel().tolist()]
    written = {
        "format": FORMAT,
        "title": alignment.title,
        "layers": alignment.layers,
        "queries": alignment.queries,
        "keys": alignment.keys,
        "weights": np.array(rounded).reshape(alignment.weights.shape).tolist(),
    }
    return (json.dumps(written, allow_nan=False) + "\n").encode("ascii")


def _page(alignment: Alignment) -> bytes:
    from regard.lens.analyses.weights import alignment_page  # which prints and saves by this module

    return alignment_page(alignment)


_RENDERERS: dict[str, Callable[[Alignment], bytes]] = {
    ".png": png,
    ".svg": svg,
    ".html": _page,
    ".json": _json,
}
