"""Sequences laid end to end, with and without filler behind them."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.packing import GRAIN, Packing, count_fillers, fill_up, round_up

some_lengths = st.lists(st.integers(1, 90), min_size=1, max_size=40).map(np.array)


@given(some_lengths)
def test_filler_lies_behind_and_looks_like_any_sequence(lengths: np.ndarray) -> None:
    plain, filled = Packing.of(lengths), Packing.filled(lengths)
    sizes = filled.starts_N.diff()
    assert filled.tokens % GRAIN == 0
    assert 0 < filled.tokens - plain.tokens <= 2 * max(GRAIN, filled.tokens / 16)
    assert filled.sequences & (filled.sequences - 1) == 0
    assert sizes[: len(lengths)].tolist() == lengths.tolist()
    assert int(sizes.max()) <= max(2, lengths.max())  # as far as positions are known to reach
    assert filled.longest == plain.longest
    assert int(filled.starts_N[:-1].max()) < filled.tokens == int(filled.starts_N[-1])
    for name in ("ids_T", "positions_T"):
        assert getattr(filled, name)[: plain.tokens].tolist() == getattr(plain, name).tolist()


@settings(max_examples=400)
@given(some_lengths, st.data())
def test_filler_of_pairs_is_alike_on_both_sides(lengths: np.ndarray, data: st.DataObject) -> None:
    others = np.array(data.draw(st.lists(st.integers(2, 90), min_size=len(lengths), max_size=len(lengths))))
    pieces = max(count_fillers(lengths), count_fillers(others))
    one, other = Packing.filled(lengths, pieces), Packing.filled(others, pieces)
    assert one.sequences == other.sequences
    assert (one.starts_N.diff() == 0).tolist() == (other.starts_N.diff() == 0).tolist()  # what fills has something to look at
    assert one.starts_N.diff().max() <= max(2, lengths.max())
    assert other.starts_N.diff().max() == others.max()


@given(st.integers(1, 10**6))
def test_few_sizes(count: int) -> None:
    assert count <= round_up(count) <= max(count + GRAIN, count * 17 / 16)
    assert round_up(round_up(count)) == round_up(count)


def test_behind() -> None:
    assert fill_up(np.array([3, 1]), 4, -100).tolist() == [3, 1, -100, -100]
    assert fill_up(np.array([3.5]), 1).tolist() == [3.5]
