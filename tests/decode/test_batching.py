"""Batches by length: a partition, sorted, within budget, and none ends before the next sentence would overfill it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.decode.batching import in_batches


@settings(max_examples=100)
@given(lengths=st.lists(st.integers(0, 60), max_size=80), budget=st.integers(1, 300))
def test_batches(lengths: list[int], budget: int) -> None:
    batches = list(in_batches(lengths, budget))
    flat = [index for batch in batches for index in batch]
    assert sorted(flat) == list(range(len(lengths)))
    assert [lengths[i] for i in flat] == sorted(lengths, reverse=True)
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= budget
    for batch in batches[:-1]:
        assert (len(batch) + 1) * max(1, lengths[batch[0]]) > budget


def test_equal_lengths_stay_in_order() -> None:
    assert list(in_batches([3, 5, 3, 5, 3], 10)) == [[1, 3], [0, 2, 4]]


def test_a_budget_of_nothing_is_told() -> None:
    with pytest.raises(UserError, match="budget"):
        next(in_batches([1], 0))
