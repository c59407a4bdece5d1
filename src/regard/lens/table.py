"""Rows of words and numbers as lines of text, in columns that line up, whatever script the words are in."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from regard.lens.digits import brief
from regard.lens.terminal import cut

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
