"""Rows that move when sentences leave: the buffer that remains is the one that indexing gives."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.model.state.protocol import RowCompaction

CPU = torch.device("cpu")


@given(st.integers(1, 8).flatmap(lambda size: st.tuples(st.just(size), st.lists(st.integers(0, size - 1), max_size=size))))
def test_the_first_rows_are_those_that_go_on(case: tuple[int, list[int]]) -> None:
    """Also where a row goes to several places, as a prompt with several samples does."""
    size, rows = case
    buffer = torch.arange(2.0 * size).view(size, 2)
    moves, moved = RowCompaction.of(rows, CPU), buffer.clone()
    moves.within(moved)
    assert moves.stay == len(rows)
    assert torch.equal(moved[: moves.stay], buffer[rows])
    assert torch.equal(moved[moves.stay :], buffer[moves.stay :])


def test_rows_in_their_place_are_not_copied() -> None:
    moves = RowCompaction.of([0, 4, 2], CPU)
    assert moves.places_R.tolist() == [1]
    assert moves.rows_R.tolist() == [4]
    assert RowCompaction.of([0, 1], CPU).rows_R.numel() == 0
