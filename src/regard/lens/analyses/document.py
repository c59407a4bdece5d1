"""Weights of a hierarchical model on a document: of its sentences, and of the words of each; the darker, the larger.

Within a sentence the weights of its words sum to one, and over the document those of its sentences do. What is drawn of a word is
sqrt(p_s) p_w of both, as Yang et al. 2016 draw it (section 3.6): important words of sentences that do not matter stay pale.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from rich.cells import cell_len

from regard.lens.display import brief
from regard.lens.display import sentence as on_one_line
from regard.lens.output.text import LEAST_WIDTH, bar
from regard.lens.plots import document
from regard.lens.plots.render import SHADES
from regard.lens.result import NotebookView

NAMED = 3  # words of a sentence, in lines without colours
LEAST = 0.05  # shades under this share of the darkest are left out
DARK = 0.5  # from here on, white letters
PLAIN = "\x1b[0m"


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
        rows = [(s.weight, [(word.text, word.spaced, shade) for word, shade in zip(s.words, s.shades())]) for s in self.sentences]
        return document.drawn(self.told, self.note, rows)

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
