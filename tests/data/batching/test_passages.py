"""Passages: every token of every document in every epoch, cut elsewhere each time; and pairs of which half do not belong."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.data.batching.labelled import SpecialTokens
from regard.data.batching.masked import Passages

MARKS = SpecialTokens(1, 2, 3)
FIRST = 10  # tokens are numbered by their place in the text, from here
LENGTHS = st.lists(st.integers(1, 60), min_size=1, max_size=12)


def passages(lengths: list[int], window: int = 12, pairs: bool = False, seed: int = 1) -> Passages:
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    return Passages(np.arange(FIRST, FIRST + sum(lengths)), starts, window, MARKS, seed, pairs)


def laid(data: Passages, rows: np.ndarray) -> list[list[int]]:
    found = data.take(rows)
    return [part.tolist() for part in np.split(found.ids_T, np.cumsum(found.lengths_N)[:-1])]


def epoch_rows(data: Passages, epoch: int) -> np.ndarray:
    return epoch * len(data) + np.arange(len(data))


@settings(max_examples=60)
@given(LENGTHS, st.integers(6, 20), st.integers(0, 9))
def test_an_epoch_has_every_token_of_every_document_once(lengths: list[int], window: int, epoch: int) -> None:
    data = passages(lengths, window)
    found = laid(data, epoch_rows(data, epoch))
    assert [i for passage in found for i in passage[1:-1]] == data.ids.tolist()
    documents = np.repeat(np.arange(len(lengths)), lengths)
    for passage in found:
        assert 3 <= len(passage) <= window
        assert (passage[0], passage[-1]) == (MARKS.start, MARKS.end)
        assert len(set(documents[np.array(passage[1:-1]) - FIRST])) == 1
    assert [len(passage) - 2 for passage in found] == data.lengths(epoch_rows(data, epoch)).tolist()


@settings(max_examples=60)
@given(LENGTHS, st.integers(6, 20), st.integers(1, 80))
def test_every_epoch_has_as_many_batches_within_the_budget(lengths: list[int], window: int, tokens: int) -> None:
    data = passages(lengths, window)
    plans = [data.plan(epoch, tokens) for epoch in range(4)]
    for epoch, plan in enumerate(plans):
        assert sorted(np.concatenate(plan).tolist()) == epoch_rows(data, epoch).tolist()
        assert all(len(rows) == 1 or len(rows) * (data.lengths(rows).max() + 2) <= tokens for rows in plan)
    assert len({len(plan) for plan in plans}) == 1


def test_a_long_document_is_cut_elsewhere_every_epoch_and_its_passages_are_full() -> None:
    data = passages([1000], window=22)
    cuts = [tuple(data.lengths(epoch_rows(data, epoch))) for epoch in range(30)]
    assert len(set(cuts)) > 8  # of at least 10 places
    assert all(set(lengths[1:-1]) == {20} for lengths in cuts)
    assert cuts[3] == tuple(data.lengths(epoch_rows(data, 3)))
    assert cuts != [tuple(passages([1000], window=22, seed=2).lengths(epoch_rows(data, epoch))) for epoch in range(30)]


def test_a_document_that_fits_is_one_passage() -> None:
    data = passages([10, 3, 1])
    assert laid(data, epoch_rows(data, 5)) == [[1, *range(10, 20), 3], [1, 20, 21, 22, 3], [1, 23, 3]]


def test_rows_do_not_depend_on_their_company() -> None:
    for pairs in (False, True):
        data = passages([200, 37, 5], pairs=pairs)
        rows = epoch_rows(data, 2)
        assert laid(data, rows[::3]) == laid(data, rows)[::3]


@settings(max_examples=60)
@given(st.lists(st.integers(2, 60), min_size=2, max_size=8), st.integers(0, 5))
def test_pairs_are_two_texts_and_those_that_do_not_follow_are_from_another_document(lengths: list[int], epoch: int) -> None:
    lengths = [*lengths, 30]
    data = passages(lengths, pairs=True)
    rows = epoch_rows(data, epoch)
    found, documents = data.take(rows), np.repeat(np.arange(len(lengths)), lengths)
    segments = np.split(found.segments_T, np.cumsum(found.lengths_N)[:-1])
    for ids, segment, strange in zip(laid(data, rows), segments, found.strange_N):
        middle = ids.index(MARKS.between)
        first, second = ids[1:middle], ids[middle + 1 : -1]
        assert first
        assert second
        assert (ids[0], ids[-1]) == (MARKS.start, MARKS.end)
        assert segment.tolist() == [0] * (middle + 1) + [1] * (len(ids) - middle - 1)
        own = documents[first[0] - FIRST]
        if strange:
            assert own not in documents[np.array(second) - FIRST] or lengths[own] > sum(lengths) - 12
        else:
            assert first + second == list(range(first[0], first[0] + len(first + second)))
            assert set(documents[np.array(second) - FIRST]) == {own}


def test_half_of_the_pairs_follow() -> None:
    data = passages([3000, 3000], pairs=True)
    strange = np.concatenate([data.take(epoch_rows(data, epoch)).strange_N for epoch in range(4)])
    assert abs(strange.mean() - 0.5) < 4 * 0.5 / len(strange) ** 0.5
    assert len(strange) > 2000


def test_in_a_single_document_the_other_text_is_from_elsewhere() -> None:
    data = passages([500], pairs=True)
    found = data.take(epoch_rows(data, 0))
    for ids, strange in zip(laid(data, epoch_rows(data, 0)), found.strange_N):
        middle = ids.index(MARKS.between)
        if strange:
            assert not set(range(ids[1], ids[1] + 9)) & set(ids[middle + 1 : -1])


@pytest.mark.parametrize(("window", "pairs", "said"), [(5, False, "data.window=5 leaves 3"), (6, True, "data.window=6 leaves 3")])
def test_a_window_without_room(window: int, pairs: bool, said: str) -> None:
    with pytest.raises(UserError, match=said):
        passages([100], window, pairs)


def test_a_text_too_short_for_strangers() -> None:
    with pytest.raises(UserError, match="too short to find sentences that do not follow"):
        passages([26], 12, pairs=True)
