"""Data that comes along."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from regard.core.errors import UserError, nearest

Row = TypeVar("Row")


def rows_of(
    where: str, sets: Mapping[str, Callable[[str], Sequence[Row]]], what: str, others: Iterable[str] = ()
) -> Sequence[Row]:
    """Of builtin:NAME/SPLIT, with these sets to choose from, and `others` that are read elsewhere."""
    name, _, split = where.removeprefix("builtin:").partition("/")
    if name not in sets:
        raise UserError(f"There are no built-in {what} {name!r}{nearest(name, [*sets, *others])}")
    if not split:
        raise UserError(f"{where} lacks a split. Type builtin:{name}/train, or /valid, or /test.")
    return sets[name](split)


def shared_out(drawn: Iterable[tuple[Row, bool]], sizes: Mapping[str, int]) -> dict[str, list[Row]]:
    """Rows that are new to training or not: training has none that are new, of validation and test every second is."""
    familiar: list[Row] = []
    fresh: list[Row] = []
    for item, new in drawn:
        (fresh if new else familiar).append(item)
    train = familiar[: sizes["train"]]
    asked = [item for both in zip(fresh, familiar[len(train) :]) for item in both]
    test, valid = asked[: sizes["test"]], asked[sizes["test"] : sizes["test"] + sizes["valid"]]
    return {"train": train, "valid": valid, "test": test}
