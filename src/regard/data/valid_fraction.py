"""Validation data taken from the training data where none is given: `data.valid_fraction=0.1`.

The share is picked at random by a seed of its own, so that it is the same whatever the training's seed is. What belongs together
stays together, in training or in validation: the sentences of a document, the questions about a text, the captions of an image,
the turns of a dialogue, and examples that occur more than once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from regard.core.errors import UserError

if TYPE_CHECKING:
    import numpy as np

T = TypeVar("T")
SEED = 1  # that validation is picked by: the same whatever the training's
HOLD_OUT = "Or set data.valid= data.valid_fraction=0.1 to hold out a tenth of data.train."


class Rows(NamedTuple):
    kept: np.ndarray
    held: np.ndarray


def split_rows(groups: Sequence[Hashable], share: float, what: str) -> Rows:
    """Split row numbers into training and validation, in order; rows of one group stay together."""
    import numpy as np  # here, and what follows: settings are checked by this module too, before torch is imported

    from regard.core.rng import generator

    number = {group: n for n, group in enumerate(dict.fromkeys(groups))}
    of_row = np.array([number[group] for group in groups], np.int64)
    sizes, order = np.bincount(of_row, minlength=len(number)), generator(SEED, "held out").permutation(len(number))
    wanted = round(share * len(groups))
    before = np.cumsum(sizes[order]) - sizes[order]
    held = np.isin(of_row, order[before < wanted])
    if not 0 < held.sum() < len(groups):
        raise UserError(
            f"data.valid_fraction={share} of {len(groups):,} {what} is {int(held.sum()):,}, which leaves nothing to learn from "
            "or to validate with; choose another share, or give data.valid."
        )
    return Rows(np.flatnonzero(~held), np.flatnonzero(held))


def split_valid(examples: Sequence[T], group: Callable[[T], Hashable], share: float, what: str) -> tuple[list[T], list[T]]:
    """Split examples into training and validation; those of one group stay together."""
    rows = split_rows([group(example) for example in examples], share, what)
    return [examples[n] for n in rows.kept], [examples[n] for n in rows.held]


class Splits(Protocol):
    """The part of a data section that decides about validation data."""

    @property
    def valid(self) -> tuple[str, ...]: ...

    @property
    def valid_fraction(self) -> float: ...


def describe_valid_fraction(data: Splits) -> list[str]:
    """Describe whether a share of the training data is used for validation."""
    if data.valid_fraction and data.valid:
        return [f"data.valid_fraction={data.valid_fraction} is not used, since there is data.valid; data.valid= leaves that out"]
    said = f"valid: data.valid_fraction={data.valid_fraction} of train, picked at random and always the same"
    return [said] if data.valid_fraction else []


def hint(split: str, error: object = "does not exist") -> str:
    """Return the end of an error sentence about missing validation data."""
    return f" {HOLD_OUT}" if split == "valid" and "does not exist" in str(error) else ""
