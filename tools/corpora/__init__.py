"""Generators of the built-in corpora: `python -m tools.corpora` writes the rows that the package ships.

The corpora are fixed: `regard` reads the compressed rows in src/regard/data/builtin/rows and never runs this code. Change a
generator, run `python -m tools.corpora`, and commit both; tests/tools/test_corpora.py compares them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

Row = TypeVar("Row")


def shared_out(rows: Iterable[tuple[Row, bool]], sizes: Mapping[str, int]) -> dict[str, list[Row]]:
    """Split (row, new to training) into train, valid and test: train has no new rows, of valid and test every second is new."""
    familiar: list[Row] = []
    fresh: list[Row] = []
    for row, new in rows:
        (fresh if new else familiar).append(row)
    train = familiar[: sizes["train"]]
    rest = [row for both in zip(fresh, familiar[len(train) :]) for row in both]
    test, valid = rest[: sizes["test"]], rest[sizes["test"] : sizes["test"] + sizes["valid"]]
    return {"train": train, "valid": valid, "test": test}
