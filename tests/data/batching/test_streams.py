"""Streams: each row goes on where it ended, every token of an epoch is an aim at most once, and in order each exactly once."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.core.packing import Segment, shape_key, tensors, to_device
from regard.data.batching.streams import Streams
from regard.data.batching.windows import WindowBatch
from regard.data.loader import Loader, bounded

sizes = (st.integers(2, 300), st.integers(1, 12), st.integers(1, 60))


def where(batch: WindowBatch) -> Segment:
    assert isinstance(batch.documents, Segment)
    return batch.documents


@given(*sizes, st.integers(0, 3))
def test_every_row_goes_on_where_it_ended(tokens: int, length: int, budget: int, epoch: int) -> None:
    source = Streams(np.arange(tokens), length, budget, seed=1)
    if tokens <= length:
        with pytest.raises(UserError, match="fewer than one segment"):
            source.plan(epoch)
        return
    batches = [source.batch(rows, epoch) for rows in source.plan(epoch)]
    for before, after in pairwise(batches):
        assert (after.ids_BL[:, 0] == before.next_BL[:, -1]).all()
        assert torch.equal(where(after).streams_B, where(before).streams_B)
    assert [bool(where(batch).fresh_B.all()) for batch in batches] == [True] + [False] * (len(batches) - 1)
    aims = np.concatenate([batch.next_BL.flatten().numpy() for batch in batches])
    assert sorted(aims) == list(range(aims.min(), aims.max() + 1))
    assert tokens - len(aims) <= source.rows * length + 1
    assert {shape_key(batch) for batch in batches} == {shape_key(batches[0])}


@given(*sizes)
def test_in_order_every_token_is_an_aim_once(tokens: int, length: int, budget: int) -> None:
    source = Streams(np.arange(tokens), length, budget, seed=1)
    if tokens <= length:
        return
    last: dict[int, int] = {}
    aims = []
    for batch in source.in_order():
        for ids, aim, stream, fresh in zip(batch.ids_BL, batch.next_BL, where(batch).streams_B, where(batch).fresh_B):
            assert fresh == (int(stream) not in last)
            assert fresh or last[int(stream)] == ids[0]
            last[int(stream)] = int(aim[-1])
            aims += aim.tolist()
    assert sorted(aims) == list(range(1, tokens))


def test_parts_of_a_step_and_smaller_batches_keep_their_streams() -> None:
    source = Streams(np.arange(1000), 5, 40, seed=1)
    whole = source.batch(source.plan(0)[3], 0)
    parts = Loader(source, accumulate=3).work(3).batches
    assert sorted(row for part in parts for row in where(part).streams_B.tolist()) == list(range(8))
    for part in parts:
        assert torch.equal(part.ids_BL, whole.ids_BL[where(part).streams_B])  # type: ignore[attr-defined]
    seen: dict[int, int] = {}
    few = bounded(source, 3)
    for rows in few.plan(0):
        batch = few.batch(rows, 0)
        for ids, aim, stream in zip(batch.ids_BL, batch.next_BL, where(batch).streams_B.tolist()):  # type: ignore[attr-defined]
            assert seen.get(stream, int(ids[0])) == ids[0]
            seen[stream] = int(aim[-1])


def test_epochs_begin_elsewhere_and_a_batch_is_copied_whole() -> None:
    source = Streams(np.arange(1000), 10, 50, seed=1)
    firsts = [int(source.batch(source.plan(epoch)[0], epoch).ids_BL[0, 0]) for epoch in (0, 1, 0)]
    assert firsts[0] == firsts[2] != firsts[1]
    batch = source.batch(source.plan(0)[0], 0)
    assert len(tensors(batch)) == 4
    assert where(to_device(batch, torch.device("meta"))).streams_B.is_meta
