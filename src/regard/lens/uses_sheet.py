"""Where things stand on the sheet of a word's uses: in inches from the top left corner, planned before anything is drawn."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from regard.lens.concordance import Line, line
from regard.lens.digits import brief
from regard.lens.glyphs import POINTS_PER_INCH, drawable, inches, sentence
from regard.lens.matrix import Box
from regard.lens.sheet import CAPTION_POINTS, CAPTION_STEP, MARGIN, TITLE_POINTS, TITLE_STEP, wrapped
from regard.lens.uses import WordUses

CURVES_WIDTH, LEAST_HEIGHT = 4.3, 2.5
AXIS_WIDTH, END_NAMES, UNDER = 0.42, 1.75, 0.75
SIDE = 30  # characters of a sentence on each side of the word
TALLEST = 14.0
GAP = 0.12


@dataclass(frozen=True)
class Sheet:
    title: list[str]
    caption: list[str]
    order: list[int]  # of the uses: those of one sense together
    lines: list[Line]  # in that order
    pitch: float
    every: int  # one line in so many is written
    curves: Box
    word_left: float  # where the word begins in every line
    matrix: Box
    width: float
    height: float

    @property
    def points(self) -> float:
        return _points(self.pitch, self.every)

    def row(self, place: int) -> float:
        return self.matrix.top + (place + 0.5) * self.pitch


def planned(found: WordUses, layer: int) -> Sheet:
    order = found.order
    lines = [Line(*(drawable(part, 80) for part in line(found.uses[n], SIDE))) for n in order]
    pitch = min(0.3, TALLEST / len(lines))
    every = math.ceil(0.1 / pitch)
    points, named = _points(pitch, every), lines[::every]
    numbers = inches(f"{len(lines)}  ", points)
    before = max(inches(part.before, points) for part in named)
    after = max(inches(f"{part.word}{part.after}", points) for part in named)
    word_left = MARGIN + AXIS_WIDTH + CURVES_WIDTH + END_NAMES + numbers + before
    matrix_left, side = word_left + after + 2 * GAP, pitch * len(lines)
    senses = max((inches(drawable(sentence(use.sense), 20), 9.0) + 2 * GAP for use in found.uses if use.sense), default=0.0)
    width = matrix_left + max(side + senses, 1.8) + MARGIN
    title = wrapped(drawable(_title(found), 300), TITLE_POINTS, width - 2 * MARGIN)
    caption = wrapped(drawable(_caption(found, layer), 600), CAPTION_POINTS, width - 2 * MARGIN)
    top = MARGIN + TITLE_STEP * len(title) + CAPTION_STEP * len(caption) + 0.62
    tall = max(LEAST_HEIGHT, side)
    curves = Box(MARGIN + AXIS_WIDTH, top, CURVES_WIDTH, min(tall, 5.0))
    box = Box(matrix_left, top, side, side)
    return Sheet(title, caption, order, lines, pitch, every, curves, word_left, box, width, top + tall + UNDER)


def _points(pitch: float, every: int) -> float:
    return min(10.0, 0.6 * POINTS_PER_INCH * pitch * every)


def _title(found: WordUses) -> str:
    return f"{sentence(found.word)}: one word, {len(found.uses):,} uses"


def _caption(found: WordUses, layer: int) -> str:
    where = f"In layer {found.layers[layer]}" if layer else "In the static embedding"
    others, senses = found.others_L[layer], found.senses
    sentences = [
        f"Read by {sentence(found.model)}.",
        "The static embedding (words) has one vector for a word; a layer gives each use its own, by what stands around it.",
        "" if found.one_spelling else "It is spelled in several ways here, so that even static vectors differ.",
        f"{where} two uses are {brief(float(found.mean_L[layer]))} apart on average (1 − cosine).",
        "" if np.isnan(others) else f"Different words of these sentences are {brief(float(others))} apart.",
        "" if senses is None else "Two uses of one sense are nearer than two of different senses in",
        "" if senses is None else f"{100 * senses.score_L[layer]:.0f}% of comparisons.",
    ]
    return " ".join(filter(None, sentences))
