"""Weights of a hierarchical model on a document: of its sentences, and of the words of each; the darker, the larger.

Within a sentence the weights of its words sum to one, and over the document those of its sentences do. What is drawn of a word is
sqrt(p_s) p_w of both, as Yang et al. 2016 draw it (section 3.6): important words of sentences that do not matter stay pale.

On a sheet, at the left of each sentence is how much it counted, and its words are on shades of how much each did.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle
from rich.cells import cell_len

from regard.lens.display import LEAST_WIDTH, bar, brief, drawable, inches, visible
from regard.lens.display import sentence as on_one_line
from regard.lens.plots.render import INK, MARGIN, MUTED, SHADES, SMALL, fitted, new_sheet, write
from regard.lens.result import NotebookView

NAMED = 3  # words of a sentence, in lines without colours
LEAST = 0.05  # shades under this share of the darkest are left out
DARK = 0.5  # from here on, white letters
PLAIN = "\x1b[0m"
WIDTH, LEFT = 8.0, 1.35  # inches: of the sheet, and of what stands before the words
POINTS, ROW, BETWEEN = 11.0, 0.31, 0.12
LONGEST = 60  # letters of a word
WARM = LinearSegmentedColormap.from_list("regard.sentences", ("#faf6f2", "#f3cdb0", "#dd8a55", "#b34a1c"))
CAPTION = (
    "Left, how much each sentence counts; the shade of a word is its weight times the root of its sentence's. "
    "Attention says where a model looked, not why it answered."
)


class Word(NamedTuple):
    text: str
    weight: float  # in its sentence
    spaced: bool  # is there a space before it?


class Sentence(NamedTuple):
    words: tuple[Word, ...]
    weight: float  # in the document

    @property
    def text(self) -> str:
        return "".join(f"{' ' * word.spaced}{word.text}" for word in self.words).strip()

    def shades(self) -> list[float]:
        return [self.weight**0.5 * word.weight for word in self.words]


@dataclass(frozen=True)
class Document(NotebookView):
    told: str  # what the model said of it
    sentences: tuple[Sentence, ...]
    note: str = ""

    @property
    def darkest(self) -> float:
        return max((shade for sentence in self.sentences for shade in sentence.shades()), default=0.0) or 1.0

    def lines(self) -> list[str]:
        """Without colours: a bar for each sentence, and the words that it is there for."""
        lines = [on_one_line(self.told), *([self.note] if self.note else []), ""]
        for sentence in self.sentences:
            words = sorted(sentence.words, key=lambda word: -word.weight)[:NAMED]
            named = " · ".join(f"{word.text} {brief(word.weight)}" for word in words)
            lines += [f"{sentence.weight:.2f}  {bar(sentence.weight)}  {on_one_line(sentence.text)}", f"{'':20}{named}"]
        return lines

    def shaded(self, width: int = 100) -> list[str]:
        """Return lines for a terminal with colours: every word on its shade, and a bar before each sentence."""
        lines = [on_one_line(self.told), *([self.note] if self.note else []), ""]
        for sentence in self.sentences:
            start = f"{sentence.weight:.2f}  {bar(sentence.weight)}  "
            for text in _wrapped(sentence, self.darkest, max(width, LEAST_WIDTH) - cell_len(start)):
                lines.append(start + text)
                start = " " * cell_len(start)
        return lines

    def figure(self) -> Figure:
        heading, laid = fitted(self.told, f"{self.note} {CAPTION}", WIDTH, 400), [_laid(sentence) for sentence in self.sentences]
        top = MARGIN + heading.height + 0.25
        height = top + sum(ROW * len(lines) + BETWEEN for lines in laid) + MARGIN
        figure, axes = new_sheet(WIDTH, height, heading)
        most = max((sentence.weight for sentence in self.sentences), default=0.0) or 1.0
        for sentence, lines in zip(self.sentences, laid):
            tall = ROW * len(lines)
            write(axes, MARGIN, top + ROW / 2, f"{sentence.weight:.2f}", size=SMALL, color=MUTED)
            shade = WARM(sentence.weight / most)
            axes.add_patch(Rectangle((MARGIN + 0.42, top + 0.03), 0.3, tall - 0.06, facecolor=shade, linewidth=0, zorder=1))
            for n, line in enumerate(lines):
                _draw_line(axes, top + ROW * (n + 0.5), line, self.darkest)
            top += tall + BETWEEN
        return figure

    def as_dict(self) -> dict[str, Any]:
        sentences = [
            {"weight": s.weight, "words": [word.text for word in s.words], "weights": [word.weight for word in s.words]}
            for s in self.sentences
        ]
        return {"format": "regard.document.1", "told": self.told, "note": self.note, "sentences": sentences}


def _wrapped(sentence: Sentence, darkest: float, room: int) -> Iterator[str]:
    line, used = "", 0
    for word, shade in zip(sentence.words, sentence.shades()):
        text = on_one_line(word.text)
        space = " " * (word.spaced and used > 0)
        if used and used + len(space) + cell_len(text) > room:
            yield line
            line, used, space = "", 0, ""
        line, used = line + space + _on_shade(text, shade / darkest), used + len(space) + cell_len(text)
    yield line


def _on_shade(text: str, share: float) -> str:
    if share < LEAST:
        return text
    paper, ink = SHADES(share), (1.0, 1.0, 1.0) if share > DARK else to_rgb("#12385c")
    back, front = (";".join(str(round(255 * part)) for part in colour[:3]) for colour in (paper, ink))
    return f"\x1b[48;2;{back}m\x1b[38;2;{front}m{text}{PLAIN}"


def _laid(sentence: Sentence) -> list[list[tuple[float, float, str, float]]]:
    """Lines of words that fit: where each begins and how wide it is, in inches, its text and its shade."""
    space, right = inches("n n", POINTS) - 2 * inches("n", POINTS), WIDTH - MARGIN
    lines: list[list[tuple[float, float, str, float]]] = [[]]
    x = LEFT
    for word, shade in zip(sentence.words, sentence.shades()):
        shown = drawable(visible(word.text), LONGEST)
        wide = inches(shown, POINTS)
        x += space if word.spaced and lines[-1] else 0.0
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
