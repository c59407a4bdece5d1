"""Mixtures: every set gives its share of batches, all of its pairs in turn, and the same batches for the same step."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.batching.mixture import Mixture
from regard.data.batching.pairs import Batch, EncodedPairs, PairBatches, Ragged
from regard.data.loader import Loader

SETS = st.lists(st.integers(1, 30), min_size=1, max_size=3)
WEIGHTS = st.sampled_from([0.5, 1.0, 2.0, 5.0])


def pairs(count: int, first: int) -> EncodedPairs:
    """Pairs whose ids say which they are."""
    rows = [[first + n] * (1 + n % 5) for n in range(count)]
    return EncodedPairs(Ragged(rows), Ragged(rows))


def mixture(sizes: list[int], weights: tuple[float, ...] = (), packed: bool = False) -> Mixture:
    return Mixture([pairs(size, 100 * (1 + n)) for n, size in enumerate(sizes)], weights, 24, 1, packed)


@given(SETS, st.data())
@settings(max_examples=40)
def test_each_set_gives_its_share_of_every_epoch(sizes: list[int], data: st.DataObject) -> None:
    weights = tuple(data.draw(WEIGHTS) for _ in sizes)
    mixed = mixture(sizes, weights)
    whole = sum(len(PairBatches(one, 24, 1).plan(0)) for one in mixed.sets)
    for epoch in (0, 1, 7):
        batches = mixed.plan(epoch)
        of_set = Counter(int(np.searchsorted(np.cumsum(sizes), rows[0], "right")) for rows in batches)
        assert [of_set[n] for n in range(len(sizes))] == mixed.shares
        assert mixed.shares == [max(1, round(whole * weight / sum(weights))) for weight in weights]
        assert all(len({int(np.searchsorted(np.cumsum(sizes), row, "right")) for row in rows}) == 1 for rows in batches)


@given(SETS)
@settings(max_examples=40)
def test_every_pair_of_a_set_is_met_before_one_is_met_again(sizes: list[int]) -> None:
    mixed = mixture(sizes, (1.0,) * len(sizes))
    met = [Counter[int]() for _ in sizes]
    ends = np.cumsum(sizes)
    for epoch in range(6):
        for rows in mixed.plan(epoch):
            met[int(np.searchsorted(ends, rows[0], "right"))].update(rows.tolist())
    for size, counts in zip(sizes, met):
        full = len(counts) == size
        assert max(counts.values()) - (min(counts.values()) if full else 0) <= 1


@given(SETS, st.integers(0, 5))
@settings(max_examples=30)
def test_a_resumed_loader_gives_the_same_batches(sizes: list[int], first: int) -> None:
    weights = tuple(1.0 + n for n in range(len(sizes)))
    whole, later = Loader(mixture(sizes, weights)), Loader(mixture(sizes, weights))
    expected = [whole.work(step).batches[0] for step in range(first + 3)][first:]
    for one, work in zip(expected, later.start(first, first + 3)):
        other = work.batches[0]
        assert isinstance(one, Batch)
        assert isinstance(other, Batch)
        assert one.source_BM.equal(other.source_BM)
        assert one.tokens == other.tokens


def test_without_weights_all_sets_are_one() -> None:
    mixed = mixture([7, 20])
    assert len(mixed.whole.data) == 27
    assert sorted(np.concatenate(mixed.plan(3)).tolist()) == list(range(27))
    assert any({int(row) < 7 for row in rows} == {True, False} for rows in mixed.plan(0))  # in one batch


@pytest.mark.parametrize("packed", [False, True])
def test_batches_hold_the_pairs_of_their_rows(packed: bool) -> None:
    mixed = mixture([5, 9], (1.0, 3.0), packed)
    for rows in mixed.plan(0):
        batch = mixed.batch(rows, 0)
        ids = {int(i) for i in batch.source_BM.flatten() if i >= 100}
        assert ids == {100 + int(row) if row < 5 else 200 + int(row) - 5 for row in rows}
        assert batch.tokens == mixed.count(rows)
