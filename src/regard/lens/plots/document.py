"""A document on a sheet: at the left of each sentence how much it counted, its words on shades of how much each did."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle

from regard.lens.display import drawable, inches, sentence, visible
from regard.lens.plots.alignment import draw_heading
from regard.lens.plots.layout import CAPTION_POINTS, CAPTION_STEP, MARGIN, TITLE_POINTS, TITLE_STEP, wrapped
from regard.lens.plots.render import INK, MUTED, SHADES, SMALL, blank, write

Words = Sequence[tuple[str, bool, float]]  # each with whether a space comes before it, and its shade
WIDTH, LEFT = 8.0, 1.35  # inches: of the sheet, and of what stands before the words
POINTS, ROW, BETWEEN = 11.0, 0.31, 0.12
DARK = 0.5  # from here on, white letters
LONGEST = 60  # letters of a word
WARM = LinearSegmentedColormap.from_list("regard.sentences", ("#faf6f2", "#f3cdb0", "#dd8a55", "#b34a1c"))
CAPTION = (
    "Left, how much each sentence counts; the shade of a word is its weight times the root of its sentence's. "
    "Attention says where a model looked, not why it answered."
)


def drawn(title: str, note: str, rows: Sequence[tuple[float, Words]]) -> Figure:
    room = WIDTH - 2 * MARGIN
    heading = wrapped(drawable(sentence(title), 300), TITLE_POINTS, room)
    caption = wrapped(drawable(f"{note} {CAPTION}".strip(), 400), CAPTION_POINTS, room)
    laid = [_laid(words) for _, words in rows]
    top = MARGIN + TITLE_STEP * len(heading) + CAPTION_STEP * len(caption) + 0.25
    height = top + sum(ROW * len(lines) + BETWEEN for lines in laid) + MARGIN
    figure, axes = blank(WIDTH, height)
    draw_heading(axes, heading, caption)
    darkest = max((shade for _, words in rows for *_, shade in words), default=0.0) or 1.0
    most = max((weight for weight, _ in rows), default=0.0) or 1.0
    for (weight, _), lines in zip(rows, laid):
        tall = ROW * len(lines)
        _draw_sentence(axes, top, tall, weight, most)
        for n, line in enumerate(lines):
            _draw_line(axes, top + ROW * (n + 0.5), line, darkest)
        top += tall + BETWEEN
    return figure


def _draw_sentence(axes: Axes, top: float, tall: float, weight: float, most: float) -> None:
    write(axes, MARGIN, top + ROW / 2, f"{weight:.2f}", size=SMALL, color=MUTED)
    box = (MARGIN + 0.42, top + 0.03), 0.3, tall - 0.06
    axes.add_patch(Rectangle(*box, facecolor=WARM(weight / most), linewidth=0, zorder=1))


def _laid(words: Words) -> list[list[tuple[float, float, str, float]]]:
    """Lines of words that fit: where each begins and how wide it is, in inches, its text and its shade."""
    space, right = inches("n n", POINTS) - 2 * inches("n", POINTS), WIDTH - MARGIN
    lines: list[list[tuple[float, float, str, float]]] = [[]]
    x = LEFT
    for text, spaced, shade in words:
        shown = drawable(visible(text), LONGEST)
        wide = inches(shown, POINTS)
        x += space if spaced and lines[-1] else 0.0
        if lines[-1] and x + wide > right:
            lines.append([])
            x = LEFT
        lines[-1].append((x, wide, shown, shade))
        x += wide + 0.015
    return lines


def _draw_line(axes: Axes, y: float, line: list[tuple[float, float, str, float]], darkest: float) -> None:
    for x, wide, text, shade in line:
        share = shade / darkest
        place = (x - 0.005, y - 0.105), wide + 0.01, 0.21
        style = "round,pad=0.015,rounding_size=0.03"
        axes.add_patch(FancyBboxPatch(*place, boxstyle=style, facecolor=SHADES(share), linewidth=0, alpha=min(1.0, 12 * share)))
        write(axes, x, y, text, size=POINTS, color="white" if share > DARK else INK)
