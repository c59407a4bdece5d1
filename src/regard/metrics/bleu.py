"""BLEU and chrF of a corpus by sacrebleu, with the signatures that make them comparable (Post 2018); exact match.

Captions: BLEU-4 against all references; for drawn scenes also exactness, and whether attention is on the object.

A caption of a scene is right if it describes it exactly. For a word that names an object (a colour, a shape), attention is on the
object if the cell with the largest weight has its centre on one of that name. `by_chance` is the share of such cells.

Dims: L words, Y X rows and columns of cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from regard.core.errors import UserError

if TYPE_CHECKING:
    from regard.data.builtin.scenes import Box, Scene


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Scores of a corpus, all from 0 to 100."""

    sentences: int
    bleu: float
    bleu_signature: str
    bleu_lowercase: float
    bleu_lowercase_signature: str
    chrf: float
    chrf_signature: str
    exact: float  # percent of outputs equal to their reference, outer spaces aside

    def lines(self) -> list[str]:
        """Return the lines that are printed."""
        return [
            f"BLEU            {self.bleu:6.2f}  {self.bleu_signature}",
            f"BLEU lowercase  {self.bleu_lowercase:6.2f}  {self.bleu_lowercase_signature}",
            f"chrF            {self.chrf:6.2f}  {self.chrf_signature}",
            f"exact match     {self.exact:6.2f}  % of {self.sentences} sentences",
        ]

    def as_dict(self) -> dict[str, float | int | str]:
        """Return the scores as JSON values."""
        return asdict(self)


def corpus_scores(outputs: Sequence[str], references: Sequence[str], lowercase: bool = False) -> Scores:
    """Return the scores of outputs, each with one reference; BLEU tokenises by 13a, so both must be plain, detokenised text.

    `lowercase` ignores case in all scores; `bleu_lowercase` always does.
    """
    if len(outputs) != len(references):
        raise UserError(f"{len(outputs)} outputs came with {len(references)} references; give exactly one reference per output.")
    if not outputs:
        raise UserError("There are no sentences to score; give at least one output and its reference.")
    from sacrebleu.metrics import CHRF  # imported here and below: prediction does not need it

    bleu, bleu_signature = _bleu(outputs, [references], lowercase)
    bleu_lowercase, bleu_lowercase_signature = _bleu(outputs, [references], lowercase=True)
    chrf = CHRF(lowercase=lowercase)
    return Scores(
        sentences=len(outputs),
        bleu=bleu,
        bleu_signature=bleu_signature,
        bleu_lowercase=bleu_lowercase,
        bleu_lowercase_signature=bleu_lowercase_signature,
        chrf=chrf.corpus_score(outputs, [references]).score,
        chrf_signature=str(chrf.get_signature()),
        exact=_exact(outputs, references, lowercase),
    )


def _bleu(outputs: Sequence[str], streams: Sequence[Sequence[str | None]], lowercase: bool) -> tuple[float, str]:
    """Return the score and its signature; each stream has one reference for every output, or None where there are no more."""
    from sacrebleu.metrics import BLEU

    metric = BLEU(lowercase=lowercase, force=True)  # force: no warning about text that looks tokenised
    score = metric.corpus_score(outputs, streams).score  # type: ignore[arg-type]
    return score, str(metric.get_signature())


def _exact(outputs: Sequence[str], references: Sequence[str], lowercase: bool) -> float:
    pairs = [(a.strip(), b.strip()) for a, b in zip(outputs, references)]
    equal = sum(a.lower() == b.lower() if lowercase else a == b for a, b in pairs)
    return 100 * equal / len(pairs)


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
    bleu, signature = _bleu(outputs, streams, lowercase=True)
    right = [scene.is_described_by(output) for scene, output in zip(scenes, outputs)]
    return CaptionScores(
        images=len(outputs),
        bleu=bleu,
        bleu_signature=signature,
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
