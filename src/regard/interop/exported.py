"""Parts that all exports to other engines share: the model, its vocabularies and marks, and probe inputs.

An export ends by running both sides on `INPUTS` inputs of different lengths. `Measure` says how far apart they were and what is
allowed; a model that is farther away is not kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.core.errors import UserError
from regard.text.tokenizer import Tokenizer

INPUTS = 100  # on which both sides are run
LONGEST, FAR = 24, 192  # tokens of most such inputs, and of the longest of the last few, which find errors far from the start
LONG_INPUTS = 5
ROWS = 20  # of a batch
MOST_DIFFERENCE = 1e-4  # of logits, log-probabilities or vectors in float32, see `difference`


@dataclass(frozen=True, eq=False)
class ExportedModel:
    """A model in float32, in evaluation mode, with all that a folder for another engine says about it."""

    name: str  # of the run
    model: Any
    tokenizer: Tokenizer | None  # of what is read; None of a model that reads no text
    target_tokenizer: Tokenizer | None = None  # of what is written, where it is another
    start: int = 0  # an output comes after it
    end: int | None = None  # and ends with it
    pad: int = 0
    labels: tuple[str, ...] = ()
    files: dict[str, str | bytes] = field(default_factory=dict)  # more files of the folder, tokenizers among them

    @property
    def config(self) -> Any:
        """Return the settings of the model, or of the body that a classifier has."""
        return getattr(self.model, "body", self.model).config

    @property
    def written(self) -> Tokenizer | None:
        """Return the tokenizer of what is written."""
        return self.target_tokenizer or self.tokenizer


class Measure(NamedTuple):
    """How far two engines are apart, and how far they may be."""

    what: str  # "log-probabilities"
    found: float
    limit: float
    agreement: bool = False  # is it a share, which may not be below the limit, or a difference, which may not be above it?

    @property
    def passed(self) -> bool:
        return self.found >= self.limit if self.agreement else self.found <= self.limit  # NaN passes neither

    def __str__(self) -> str:
        return f"{self.what}: {self.found:.1%}" if self.agreement else f"{self.what}: {self.found:.1e}"

    @property
    def allowed(self) -> str:
        return f"at least {self.limit:.0%}" if self.agreement else f"at most {self.limit:g}"


def difference(found: Any, expected: Tensor) -> float:
    """Return the largest difference of two arrays, in units of the largest number expected where that is above 1.

    Numbers of float32 are as exact as they are small, and a trained model's logits are not. NaN: shapes differ, or no numbers.
    """
    found_N, shape = torch.as_tensor(found), expected.shape
    if found_N.shape != shape:
        return math.nan
    return float((found_N - expected).abs().max() / expected.abs().max().clamp(min=1))


def largest(differences: list[float]) -> float:
    """Return the largest, NaN where one of them is none: `max` would pass over it."""
    return float(torch.tensor(differences, dtype=torch.float64).max())


def not_installed(engine: str, error: ImportError) -> UserError:
    """Return the sentence about an engine that is not there."""
    return UserError(
        f"--to {engine} needs packages that are not installed ({error}); install them: pip install 'regard[export]'."
    )


def must_agree(measures: list[Measure], engine: str) -> None:
    """Refuse an export that computes something else than the run."""
    for measure in measures:
        if not measure.passed:
            raise UserError(
                f"{engine} and this run differ on {INPUTS} inputs ({measure}, where {measure.allowed} is allowed), so nothing "
                "was exported; report the recipe of this run, or export it with --to hf."
            )


def random_rows(vocabulary: int, barred: set[int], room: int, seed: int) -> list[list[int]]:
    """Return `INPUTS` rows of random ids, of 1 to `room` tokens, without those that are barred; the last few are long."""
    draw = torch.Generator().manual_seed(seed)
    allowed_N = torch.tensor([i for i in range(vocabulary) if i not in barred] or [0])
    lengths = [1 + n % min(LONGEST, room) for n in range(INPUTS - LONG_INPUTS)]
    lengths += [max(1, min(FAR, room) * n // LONG_INPUTS) for n in range(1, LONG_INPUTS + 1)]
    return [allowed_N[torch.randint(len(allowed_N), (length,), generator=draw)].tolist() for length in lengths]


def batches(rows: list[list[int]], *others: list[list[int]]) -> Iterator[tuple[list[list[int]], ...]]:
    """Yield `ROWS` rows at a time, of each list."""
    for n in range(0, len(rows), ROWS):
        yield tuple(part[n : n + ROWS] for part in (rows, *others))


def padded(rows: list[list[int]], pad: int) -> tuple[Tensor, Tensor]:
    """Return ids_BL, padded at the right, and lengths_B."""
    found = nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=float(pad))
    return found, torch.tensor([len(row) for row in rows])


def room_of(config: Any) -> int:
    """Return the most tokens of a probe input; a mark may stand before it."""
    return max(1, (config.context or FAR + 1) - 1)
