"""Scores of captions: BLEU-4 against all references; for drawn scenes also exactness, and whether attention is on the object.

A caption of a scene is right if it describes it exactly. For a word that names an object (a colour, a shape), attention is on the
object if the cell with the largest weight has its centre on one of that name. `by_chance` is the share of such cells.

Dims: L words, Y X rows and columns of cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

import numpy as np

from regard.core.errors import UserError
from regard.data.builtin.scenes import Box, Scene


class Looks(NamedTuple):
    """Counts of words that name objects: all, those with the attention peak on the object, and those expected by chance."""

    words: int
    on_object: float
    by_chance: float

    def __add__(self, other: Looks) -> Looks:  # type: ignore[override]
        return Looks(self.words + other.words, self.on_object + other.on_object, self.by_chance + other.by_chance)


NONE = Looks(0, 0.0, 0.0)


@dataclass(frozen=True, kw_only=True)
class CaptionScores:
    """Scores of captions, all from 0 to 100; those of scenes are None for other images."""

    images: int
    bleu: float
    bleu_signature: str
    right: float | None = None
    on_object: float | None = None
    by_chance: float | None = None

    def lines(self) -> list[str]:
        found = [f"BLEU-4          {self.bleu:6.2f}  {self.bleu_signature}"]
        if self.right is not None:
            found += [f"right           {self.right:6.2f}  % of {self.images:,} captions describe their scene exactly"]
        if self.on_object is not None:
            unit = f"% of colours and shapes, where attention is largest ({self.by_chance:.1f} by chance)"
            found += [f"on its object   {self.on_object:6.2f}  {unit}"]
        return found

    def as_dict(self) -> dict[str, float | int | str | None]:
        return {key: value for key, value in asdict(self).items() if value is not None}


def caption_scores(
    outputs: Sequence[str], references: Sequence[Sequence[str]], scenes: Sequence[Scene], looks: Looks = NONE
) -> CaptionScores:
    """Return the scores of outputs against all references of each image; `scenes` is empty for other images."""
    if not outputs or len(outputs) != len(references):
        raise UserError(f"{len(outputs)} captions came with references for {len(references)} images; give one for each.")
    most = max(map(len, references))
    streams = [[each[n] if n < len(each) else None for each in references] for n in range(most)]
    from sacrebleu.metrics import BLEU  # imported here: prediction does not need it

    metric = BLEU(lowercase=True, force=True)  # force: no warning about text that looks tokenised
    bleu = metric.corpus_score(list(outputs), streams).score  # type: ignore[arg-type]  # None: an image has no more
    right = [scene.is_described_by(output) for scene, output in zip(scenes, outputs)]
    return CaptionScores(
        images=len(outputs),
        bleu=bleu,
        bleu_signature=str(metric.get_signature()),
        right=100 * sum(right) / len(right) if right else None,
        on_object=100 * looks.on_object / looks.words if looks.words else None,
        by_chance=100 * looks.by_chance / looks.words if looks.words else None,
    )


def looks_at(scene: Scene, caption: str, maps_LYX: np.ndarray) -> Looks:
    """Return the counts of one caption; `maps_LYX` has the attention of each of its words."""
    total = NONE
    for word, boxes in scene.named(caption):
        covered_YX = middles_on(boxes, *maps_LYX.shape[1:])
        peak = np.unravel_index(int(maps_LYX[word].argmax()), covered_YX.shape)
        total += Looks(1, float(covered_YX[peak]), float(covered_YX.mean()))
    return total


def middles_on(boxes: Sequence[Box], rows: int, columns: int) -> np.ndarray:
    """Return which cells have their centre on one of these boxes."""
    covered_YX = np.zeros((rows, columns), bool)
    for row, column in np.ndindex(rows, columns):
        covered_YX[row, column] = any(box.holds((column + 0.5) / columns, (row + 0.5) / rows) for box in boxes)
    return covered_YX
