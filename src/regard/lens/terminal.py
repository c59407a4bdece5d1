"""Attention as lines of text: each query with a bar for its strongest key, then its strongest keys by name."""

from __future__ import annotations

import numpy as np
from rich.cells import cell_len, set_cell_size

from regard.lens.alignment import Alignment
from regard.lens.digits import brief
from regard.lens.glyphs import sentence, visible

LEAST_WIDTH = 40
TOKEN_COLUMNS = 18
BAR_COLUMNS = 12
KEYS_NAMED = 5
LEAST_WEIGHT = 0.05

_EIGHTHS = " ▏▎▍▌▋▊▉█"


def text(alignment: Alignment, width: int = 100) -> str:
    """The mean over all layers and heads for a terminal of `width` columns, of which 40 are the least."""
    width = max(width, LEAST_WIDTH)
    weights = alignment.mean()
    queries = [cut(visible(token), TOKEN_COLUMNS) for token in alignment.queries]
    keys = [cut(visible(token), TOKEN_COLUMNS) for token in alignment.keys]
    column = max(cell_len(query) for query in queries)
    most = max(1.0, float(weights.max()))  # lengths may be more than one
    layers, heads = alignment.weights.shape[:2]
    told = alignment.layers[0] if layers * heads == 1 else f"mean over {layers} × {heads} heads"
    lines = [cut(sentence(alignment.title), width), told, *([alignment.note] if alignment.note else []), ""]
    for query, row in zip(queries, weights):
        start = f"{' ' * (column - cell_len(query))}{query}  {bar(float(row.max()) / most)}  "
        lines.append((start + _named(row, keys, width - cell_len(start))).rstrip())
    return "\n".join(lines)


def _named(row: np.ndarray, keys: list[str], room: int) -> str:
    """The strongest keys with their weights, as many as fit; the very strongest is always there."""
    order = np.argsort(-row, kind="stable")[:KEYS_NAMED]
    named = cut(f"{keys[order[0]]} {brief(row[order[0]])}", room)
    for key in order[1:]:
        longer = f"{named} · {keys[key]} {brief(row[key])}"
        if row[key] < LEAST_WEIGHT or cell_len(longer) > room:
            break
        named = longer
    return named


def bar(weight: float) -> str:
    """Of a weight from 0 to 1."""
    eighths = round(min(weight, 1.0) * BAR_COLUMNS * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (_EIGHTHS[rest] if rest else "")).ljust(BAR_COLUMNS)


def cut(text: str, room: int) -> str:
    return text if cell_len(text) <= room else set_cell_size(text, room - 1).rstrip() + "…"
