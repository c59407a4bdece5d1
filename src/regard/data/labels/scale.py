"""Numbers that texts are given, such as how alike two are from 0 to 5: their range is learned and kept, and they are looked at.

A model is trained on how many standard deviations a number lies from the mean, so that one that knows nothing, and says 0, starts
with the mean, and a learning rate that suits one scale suits all.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path

import numpy as np

from regard.core.errors import UserError
from regard.core.files import read_bounded, write_whole
from regard.data.sources.columns import is_number
from regard.data.sources.labelled import Example

LOPSIDED = 0.8  # of all texts with one number: there is little to learn
USE_CLASSES = "Give numbers, check data.columns, or set objective.name=classification for labels that are none."


@dataclass(frozen=True)
class Scale:
    """Where the numbers of training lie; a model's score means nothing without it."""

    lowest: float
    highest: float
    mean: float
    deviation: float
    texts: int  # that have one number together: 1, or 2 of a pair; 0: either

    @classmethod
    def of(cls, examples: Sequence[Example]) -> Scale:
        found = np.array([_number(example, "train") for example in examples])
        if found.min() == found.max():
            raise UserError(
                f"data.train has one number only, {found[0]:g}, so there is nothing to learn. Check data.columns (text,label), "
                "and data.limit if the file is sorted by it."
            )
        spread = (float(found.min()), float(found.max()), float(found.mean()), float(found.std()))
        return cls(*spread, len(examples[0].texts))

    def __len__(self) -> int:
        """One score a text."""
        return 1

    @property
    def told(self) -> str:
        return f"numbers from {self.lowest:g} to {self.highest:g}"

    @property
    def meaning(self) -> str:
        """Other than before if the same scores would mean something else."""
        return repr(self)

    def numbers(self, examples: Sequence[Example], split: str) -> np.ndarray:
        """Each example's number, in deviations from the mean."""
        for example in examples:
            if self.texts and len(example.texts) != self.texts:
                raise UserError(f"data.{split}: {example.place}: texts found: {len(example.texts)}, in training: {self.texts}.")
        return ((values(examples, split) - self.mean) / self.deviation).astype(np.float32)

    def restored(self, scores: np.ndarray) -> np.ndarray:
        """A model's scores, as numbers like those of training."""
        return scores * self.deviation + self.mean

    def save(self, path: Path) -> None:
        write_whole(path, json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> Scale:
        if not path.is_file():
            raise UserError(f"There is no scale at {path}. Copy it back, or make it again by the same 'regard train' command.")
        try:
            found = cls(**json.loads(read_bounded(path, within=path.parent).decode()))
            good = isfinite(found.mean) and found.deviation > 0 and found.texts in (0, 1, 2)
        except (ValueError, RecursionError, TypeError, OverflowError):
            good = False
        if not good:
            raise UserError(f"{path} is damaged; copy it again from where the run was made, or train another run.")
        return found


def values(examples: Sequence[Example], split: str) -> np.ndarray:
    """Each example's number as it is written; what is none is refused."""
    return np.array([_number(example, split) for example in examples])


def _number(example: Example, split: str) -> float:
    if not is_number(example.label):
        raise UserError(f"data.{split}: {example.place}: the label {example.label[:40]!r} is not a number. {USE_CLASSES}")
    return float(example.label)


def described_numbers(examples: Sequence[Example], split: str = "train") -> list[str]:
    """Where they lie, what it scores to always say their mean, and what looks odd."""
    found = values(examples, split)
    often = Counter(found.tolist()).most_common(1)[0]
    off = np.abs(found - found.mean()).mean()
    lines = [f"from {found.min():g} to {found.max():g}; always saying their mean, {found.mean():.2f}, is off by {off:.2f}"]
    if often[1] > LOPSIDED * len(found):
        lines.append(f"warning: {often[1] / len(found):.1%} are {often[0]:g}, so there is little to learn from the rest.")
    return lines
