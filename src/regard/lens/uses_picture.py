"""The uses of a word in a picture: PNG, SVG or HTML for people, JSON for another program, by the ending of the file's name."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np

from regard.lens import uses_figure, uses_page
from regard.lens.picture import check_suffix, store
from regard.lens.uses import WordUses

FORMAT = "regard.uses.1"


def save(found: WordUses, path: Path, layer: int) -> None:
    """The picture that the ending of `path` asks for, with the matrix of this layer, by its place among `found.layers`."""
    path = Path(path)
    check_suffix(path)
    store(_RENDERERS[path.suffix.lower()](found, layer), path)


def _json(found: WordUses, layer: int) -> bytes:
    """All layers, whichever is chosen for the eye."""
    senses = found.senses
    written = {
        "format": FORMAT,
        "word": found.word,
        "model": found.model,
        "layers": found.layers,
        "uses": [asdict(use) for use in found.uses],
        "distances": found.distances_LUU.tolist(),
        "mean": found.mean_L.tolist(),
        "other_words": [None if np.isnan(other) else float(other) for other in found.others_L],
        "senses": None if senses is None else {name[:-2]: values.tolist() for name, values in senses._asdict().items()},
        "notes": found.notes,
    }
    return (json.dumps(written, allow_nan=False) + "\n").encode("ascii")


_RENDERERS: dict[str, Callable[[WordUses, int], bytes]] = {
    ".png": uses_figure.png,
    ".svg": uses_figure.svg,
    ".html": uses_page.html,
    ".json": _json,
}
