"""Rows of words and numbers as lines of text, in columns that line up, whatever script the words are in.

Attention as lines of text: each query with a bar for its strongest key, then its strongest keys by name.

A word among its neighbours: as much of a sentence as fits on a line, cut at spaces, and the word apart from both sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from rich.cells import cell_len, set_cell_size

from regard.lens.alignment import Alignment
from regard.lens.analyses.word_senses import Use
from regard.lens.display import brief, sentence, visible

WIDEST = 60  # cells of one column
Cell = str | int | float | None


def table(header: Sequence[str], rows: Sequence[Sequence[Cell]]) -> list[str]:
    """A line for the header and one a row; numbers to the right with three places or two digits, "-" where there is none."""
    texts = [[cut(_text(value), WIDEST) for value in row] for row in rows]
    numeric = [bool(rows) and all(not isinstance(row[n], str) for row in rows) for n in range(len(header))]
    widths = [max(map(cell_len, (name, *(row[n] for row in texts)))) for n, name in enumerate(header)]
    return [_line(cells, widths, numeric) for cells in (list(header), *texts)]


def _text(value: Cell) -> str:
    if value is None:
        return "-"
    return brief(value, 3) if isinstance(value, float) else str(value)


def _line(cells: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> str:
    padded = []
    for cell, width, right in zip(cells, widths, numeric):
        space = " " * (width - cell_len(cell))
        padded.append(f"{space}{cell}" if right else f"{cell}{space}")
    return "  ".join(padded).rstrip()


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
    """Return a bar of block characters for a weight from 0 to 1."""
    eighths = round(min(weight, 1.0) * BAR_COLUMNS * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (_EIGHTHS[rest] if rest else "")).ljust(BAR_COLUMNS)


def cut(text: str, room: int) -> str:
    return text if cell_len(text) <= room else set_cell_size(text, room - 1).rstrip() + "…"


class Line(NamedTuple):
    before: str
    word: str
    after: str

    def __str__(self) -> str:
        return f"{self.before}{self.word}{self.after}"


def line(use: Use, side: int) -> Line:
    """At most `side` characters on each side of the word, nothing in them invisible."""
    before, after = sentence(use.sentence[: use.start]), sentence(use.sentence[use.end :])
    gap_before = " " if use.sentence[: use.start][-1:].isspace() and before else ""
    gap_after = " " if use.sentence[use.end :][:1].isspace() and after else ""
    start = _cut(before[::-1], side - len(gap_before))[::-1]
    return Line(
        f"{start}{gap_before}", sentence(use.word) or visible(use.word), f"{gap_after}{_cut(after, side - len(gap_after))}"
    )


def _cut(text: str, room: int) -> str:
    """The beginning of a text, to the last whole word that fits with a mark behind it; a longer word is broken."""
    if len(text) <= room:
        return text
    whole = text[: room - 1].rpartition(" ")[0].rstrip()
    return f"{whole} …" if whole else f"{text[: room - 1]}…"
