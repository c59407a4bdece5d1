"""Built-in corpora: read by name and split, and refused in a sentence otherwise."""

from __future__ import annotations

import time

import pytest

from regard.core.errors import UserError
from regard.data.builtin import SPLITS, builtin_rows, read_builtin
from regard.data.sources import dialogues, labelled, parallel, qa, tagged

NAMES = [name for source in (dialogues, labelled, parallel, qa, tagged) for name in source.BUILTIN]


@pytest.mark.parametrize("name", NAMES)
def test_every_split_has_rows_of_one_shape(name: str) -> None:
    rows = [row for split in SPLITS for row in builtin_rows(name, split)]
    assert len(rows) > 3000
    assert name == "smalltalk" or len({tuple(map(type, row)) for row in rows}) == 1
    assert all(field or field == 0 for row in rows for field in row)


def test_the_largest_is_read_quickly() -> None:
    start = time.process_time()
    assert len(builtin_rows("english-french", "train")) == 20_000
    assert time.process_time() - start < 0.5


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("builtin:dats/train", r"no built-in pairs 'dats'.*did you mean 'dates'"),
        ("builtin:scene/train", r"no built-in pairs 'scene'.*did you mean 'scenes'"),
        ("builtin:dates", r"builtin:dates lacks a split. Type builtin:dates/train"),
        ("builtin:dates/tset", r"dates has no split 'tset'.*did you mean 'test'"),
        ("builtin:dates/../sha256", r"no split '../sha256'"),
    ],
)
def test_what_is_not_there_is_refused(where: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_builtin(where, ("dates",), "pairs", ("scenes",))
