"""Tokens as they may be shown: nothing invisible, nothing that reorders or breaks a page, no glyph the font lacks.

Numbers for people: as many places as a column has, and two digits that say something of whatever is too small for them. Rows of
words and numbers as lines of text, in columns that line up, whatever script the words are in.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import matplotlib
from matplotlib.font_manager import get_font
from rich.cells import cell_len, set_cell_size

# matplotlib ships this font, so a picture looks the same on every machine
FONT = Path(matplotlib.get_data_path(), "fonts", "ttf", "DejaVuSans.ttf")
POINTS_PER_INCH = 72
_FINE = 720  # dots per inch at which type is measured, so that hinting does not round it

_JOINERS = "\u200c\u200d"  # format characters that ordinary Persian, Hindi and emoji are written with
_SHORT = {" ": "␣", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def escape(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def visible(token: str) -> str:
    """The token with spaces, controls, direction marks, lone surrogates and unassigned characters written out."""
    if not token:
        return "∅"
    return "".join(_SHORT.get(character) or _seen(character) for character in token)


def sentence(text: str) -> str:
    """Running text on one line: its words made visible, single spaces between them kept as spaces."""
    return " ".join(visible(word) for word in text.split())


WORD_STARTS = ("▁", "Ġ")  # SentencePiece and byte-level vocabularies; WordPiece marks what continues a word, by "##"


def word_label(pieces: Sequence[str]) -> str:
    """Join the pieces of one word to the word, without the marks that vocabularies put at the beginning of pieces."""
    word = "".join([pieces[0], *(piece.removeprefix("##") for piece in pieces[1:])])
    return word.lstrip("".join(WORD_STARTS)) or word


def drawable(text: str, limit: int = 28) -> str:
    """`text`, already visible, for a picture: glyphs that DejaVu Sans lacks escaped, then cut to `limit` characters."""
    known = _characters()
    return shorten("".join(c if ord(c) in known else escape(c) for c in text), limit)


def shorten(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def inches(text: str, points: float) -> float:
    """Return the width of `text` in inches when set in DejaVu Sans at this size."""
    font = get_font(FONT)
    font.set_size(points, _FINE)
    font.set_text(text)
    return font.get_width_height()[0] / 64 / _FINE  # FreeType counts in sixty-fourths of a dot


def _seen(character: str) -> str:
    hidden = unicodedata.category(character)[0] in "CZ" and character not in _JOINERS
    return escape(character) if hidden else character


@cache
def _characters() -> frozenset[int]:
    return frozenset(get_font(FONT).get_charmap())


def brief(value: float, places: int = 2, *, signed: bool = False) -> str:
    """0.25 stays 0.25, but 0.00031 is not 0.00; a zero has no sign."""
    if value == 0:
        return f"{0:.{places}f}"
    small = abs(value) < 0.95 * 10.0 ** (1 - places)
    return f"{value:{'+' if signed else ''}.{'2g' if small else f'{places}f'}}"


WIDEST = 60  # cells of one column
LEAST_WIDTH = 40  # of a terminal
TOKEN_COLUMNS = 18
BAR_COLUMNS = 12
_EIGHTHS = " ▏▎▍▌▋▊▉█"
Cell = str | int | float | None


def table(header: Sequence[str], rows: Sequence[Sequence[Cell]]) -> list[str]:
    """A line for the header and one a row; numbers to the right with three places or two digits, "-" where there is none."""
    texts = [[cut(_text(value), WIDEST) for value in row] for row in rows]
    numeric = [bool(rows) and all(not isinstance(row[n], str) for row in rows) for n in range(len(header))]
    widths = [max(map(cell_len, (name, *(row[n] for row in texts)))) for n, name in enumerate(header)]
    return [_line(cells, widths, numeric) for cells in (list(header), *texts)]


def report(title: str, told: str, header: Sequence[str], rows: Sequence[Sequence[Cell]]) -> list[str]:
    """Return a title, its explanation, and a table."""
    return [sentence(title), told, "", *table(header, rows)]


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


def bar(weight: float) -> str:
    """Return a bar of block characters for a weight from 0 to 1."""
    eighths = round(min(weight, 1.0) * BAR_COLUMNS * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (_EIGHTHS[rest] if rest else "")).ljust(BAR_COLUMNS)


def cut(text: str, room: int) -> str:
    return text if cell_len(text) <= room else set_cell_size(text, room - 1).rstrip() + "…"
