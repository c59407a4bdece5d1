"""A share of the training data that is held out to validate with, where nothing else is given: `data.valid_fraction=0.1`.

It is picked at random, by a seed of its own, so that it is the same one whatever the training's. What belongs together stays
together, in training or in validation: the sentences of a document, the questions about a text, the captions of an image, what
was said in a dialogue, and examples that are there more than once.
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


def rows_held_out(groups: Sequence[Hashable], share: float, what: str) -> Rows:
    """The rows of training and of validation, in their order; `groups` says of each row what it belongs to."""
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


def held_out(examples: Sequence[T], group: Callable[[T], Hashable], share: float, what: str) -> tuple[list[T], list[T]]:
    """Training and validation."""
    rows = rows_held_out([group(example) for example in examples], share, what)
    return [examples[n] for n in rows.kept], [examples[n] for n in rows.held]


class Splits(Protocol):
    """What the data sections have that can hold out a share."""

    @property
    def valid(self) -> tuple[str, ...]: ...

    @property
    def valid_fraction(self) -> float: ...


def told_held_out(data: Splits) -> list[str]:
    """For people: whether a share is held out, or asked for in vain."""
    if data.valid_fraction and data.valid:
        return [f"data.valid_fraction={data.valid_fraction} is not used, since there is data.valid; data.valid= leaves that out"]
    return (
        [f"valid: data.valid_fraction={data.valid_fraction} of train, picked at random and always the same"]
        if data.valid_fraction
        else []
    )


def must_be_share(share: float) -> None:
    if not 0 <= share < 1:
        raise UserError(f"data.valid_fraction={share} must be 0 (none) or more, and less than 1, such as 0.1.")


def hint(split: str, error: object = "does not exist") -> str:
    """What a complaint about validation data ends with, where there is none."""
    return f" {HOLD_OUT}" if split == "valid" and "does not exist" in str(error) else ""
