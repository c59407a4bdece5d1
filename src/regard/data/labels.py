"""Labels of texts: class names (`Labels`) or numbers such as a similarity from 0 to 5 (`Scale`), as found in the training texts.

Both are saved with the run. A regression model is trained on standardized numbers, in standard deviations from the mean, so that
one learning rate suits every scale.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path

import numpy as np

from regard.core.errors import UserError, nearest
from regard.core.files import read_bounded, write_whole
from regard.data.lra import Sequences
from regard.data.sources.columns import is_number
from regard.data.sources.labelled import Example

MANY, SHARED = 10, 0.5  # more labels than this, and more than this share of the texts, and they are none
RARE = 10  # texts of a class that are too few to learn it from
LOPSIDED = 0.8  # of all texts in one class, or with one number: a score that says little
USE_CLASSES = "Give numbers, check data.columns, or set objective.name=classification for labels that are none."


@dataclass(frozen=True)
class Labels:
    """The class names of texts, in the order of the model's scores."""

    names: tuple[str, ...]
    texts: int  # that have one label together: 1, or 2 of a pair; 0: either

    @classmethod
    def of(cls, examples: Sequence[Example], what: str = "texts") -> Labels:
        """Collect the labels: integers sorted by value, others alphabetically; generated sequences have a fixed list.

        `what` are the examples, for errors.
        """
        found = Counter(example.label for example in examples)
        if len(found) < 2:
            raise UserError(
                f"data.train has one label only, {examples[0].label!r}, so there is nothing to learn. Check data.columns "
                f"({what.removesuffix('s')},label), and data.limit if the file is sorted by label."
            )
        if len(found) > max(MANY, SHARED * len(examples)):
            if what == "texts" and all(is_number(label) for label in found):
                raise UserError(
                    f"data.train has {len(found):,} labels for {len(examples):,} texts, and all are numbers, such as "
                    f"{examples[0].label!r}. To predict numbers, set objective.name=regression."
                )
            raise UserError(
                f"data.train has {len(found):,} labels for {len(examples):,} {what}, such as {examples[0].label[:40]!r}; are the "
                f"columns swapped? Give data.columns={what.removesuffix('s').upper()},LABEL."
            )
        if isinstance(examples, Sequences):
            return cls(examples.names, 1)
        by_size = all(label.isascii() and label.removeprefix("-").isdecimal() for label in found)
        names = sorted(found, key=lambda label: (int(label) if by_size else 0, label))
        return cls(tuple(names), len(examples[0].texts))

    def __len__(self) -> int:
        return len(self.names)

    @property
    def summary(self) -> str:
        return f"{len(self)} labels"

    @property
    def meaning(self) -> str:
        """Return a fingerprint of the labels; if it changes, resuming is refused."""
        return "\0".join(self.names)

    def numbers(self, examples: Sequence[Example], split: str) -> np.ndarray:
        """Return each example's label as a class number; a label that training does not have is refused."""
        number = {name: n for n, name in enumerate(self.names)}
        for example in examples:
            if example.label not in number:
                raise UserError(
                    f"data.{split}: {example.place}: the label {example.label!r} is not one that training knows"
                    f"{nearest(example.label, self.names)}"
                )
            if self.texts and len(example.texts) != self.texts:
                raise UserError(f"data.{split}: {example.place}: texts found: {len(example.texts)}, in training: {self.texts}.")
        return np.array([number[example.label] for example in examples], np.int64)

    def weights(self, numbers: np.ndarray) -> np.ndarray:
        """Return the weight of each class so that all classes count the same, and a training text counts 1 on average."""
        return len(numbers) / (len(self) * np.bincount(numbers, minlength=len(self)))

    def save(self, path: Path) -> None:
        write_whole(path, json.dumps({"texts": self.texts, "labels": self.names}, indent=1, ensure_ascii=False) + "\n")

    @classmethod
    def load(cls, path: Path) -> Labels:
        if not path.is_file():
            raise UserError(f"There are no labels at {path}. Copy it back, or make it again by the same 'regard train' command.")
        try:
            found = json.loads(read_bounded(path, within=path.parent).decode())
            names, texts = tuple(found["labels"]), found["texts"]
        except (ValueError, RecursionError, TypeError, KeyError):
            names, texts = (), 0
        if len(names) < 2 or texts not in (0, 1, 2) or not all(isinstance(name, str) for name in names):
            raise UserError(f"{path} is damaged; copy it again from where the run was made, or train another run.")
        return cls(names, texts)


def describe_labels(examples: Sequence[Example], shown: int = 6, what: str = "texts") -> list[str]:
    """Describe how often each label occurs, the accuracy of always saying the most frequent one, and add warnings."""
    total, counts = len(examples), Counter(example.label for example in examples).most_common()
    (most, often), dots = counts[0], ", ..." if len(counts) > shown else ""
    listed = ", ".join(f"{label} {count / total:.1%}" for label, count in counts[:shown])
    lines = [f"{listed}{dots}; always saying {most!r} scores {often / total:.1%}"]
    if often > LOPSIDED * total:
        lines.append(f"warning: {often / total:.1%} are {most!r}, so accuracy will look too good; use macro F1 and MCC.")
    if rare := [label for label, count in counts if count < RARE]:
        lines.append(f"warning: {len(rare)} labels have fewer than {RARE} {what} each, such as {rare[0]!r}; more would help.")
    different = Counter(key for key, _ in {(example.key, example.label) for example in examples})
    if unsure := sum(count > 1 for count in different.values()):
        lines.append(f"warning: {unsure} {what} occur with two labels or more, so no model can be right about all of them.")
    return lines


@dataclass(frozen=True)
class Scale:
    """Range, mean and standard deviation of the training numbers, by which a model's scores are standardized."""

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
        """Return 1: the number of scores for each text."""
        return 1

    @property
    def summary(self) -> str:
        return f"numbers from {self.lowest:g} to {self.highest:g}"

    @property
    def meaning(self) -> str:
        """Return a fingerprint of the scale; if it changes, resuming is refused."""
        return repr(self)

    def numbers(self, examples: Sequence[Example], split: str) -> np.ndarray:
        """Return each example's number, standardized."""
        for example in examples:
            if self.texts and len(example.texts) != self.texts:
                raise UserError(f"data.{split}: {example.place}: texts found: {len(example.texts)}, in training: {self.texts}.")
        return ((values(examples, split) - self.mean) / self.deviation).astype(np.float32)

    def restored(self, scores: np.ndarray) -> np.ndarray:
        """Return a model's standardized scores in the scale of the training numbers."""
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
    """Return each example's number; a label that is no number is refused."""
    return np.array([_number(example, split) for example in examples])


def _number(example: Example, split: str) -> float:
    if not is_number(example.label):
        raise UserError(f"data.{split}: {example.place}: the label {example.label[:40]!r} is not a number. {USE_CLASSES}")
    return float(example.label)


def describe_numbers(examples: Sequence[Example], split: str = "train") -> list[str]:
    """Describe the range of the numbers, the error of always saying their mean, and add warnings."""
    found = values(examples, split)
    often = Counter(found.tolist()).most_common(1)[0]
    off = np.abs(found - found.mean()).mean()
    lines = [f"from {found.min():g} to {found.max():g}; always saying their mean, {found.mean():.2f}, is off by {off:.2f}"]
    if often[1] > LOPSIDED * len(found):
        lines.append(f"warning: {often[1] / len(found):.1%} are {often[0]:g}, so there is little to learn from the rest.")
    return lines
