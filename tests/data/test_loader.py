"""The loader carries nothing: any step from any start is the same, ranks and micro-batches share it out, threads end."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.data.batching.labelled import LabelledBatches, LabelledTexts
from regard.data.batching.pairs import Batch, EncodedPairs, PairBatches, Ragged, make_batch
from regard.data.loader import Loader, Work, bounded


def numbered_data(count: int = 50) -> EncodedPairs:
    """Pair n has target n + 4, so that a batch shows which pairs are in it."""
    return EncodedPairs(Ragged([[4] * (n % 5) for n in range(count)]), Ragged([[n + 4] for n in range(count)]))


DATA = numbered_data()


def loader(accumulate: int = 1, rank: int = 0, world: int = 1, ahead: int = 8, seed: int = 1) -> Loader:
    return Loader(PairBatches(DATA, 24, seed), accumulate=accumulate, rank=rank, world=world, ahead=ahead)


def pairs_in(work: Work) -> list[int]:
    counted = work.batches[: len(work.batches) - work.idle]
    return [number - 4 for batch in counted for number in batch.target_in_BL[:, 1].tolist()]


def same(left: Work, right: Work) -> bool:
    fields = ("source_BM", "source_lengths_B", "target_in_BL", "target_out_BL", "target_lengths_B")
    return (
        left[1:] == right[1:]
        and len(left.batches) == len(right.batches)
        and all(
            a.tokens == b.tokens and all(torch.equal(getattr(a, name), getattr(b, name)) for name in fields)
            for a, b in zip(left.batches, right.batches)
        )
    )


others: set[threading.Thread] = set()  # that were there before the test


def loader_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "loader" and thread not in others]


def wait_for_no_threads(seconds: float = 600.0) -> bool:
    deadline = time.monotonic() + seconds
    while loader_threads() and time.monotonic() < deadline:
        time.sleep(0.01)
    return not loader_threads()


@pytest.fixture(autouse=True)
def leave_no_threads() -> Iterator[None]:
    others.update(threading.enumerate())
    yield
    if loader_threads():  # to collect all that a session has made takes half a second
        gc.collect()
    assert wait_for_no_threads()
    others.clear()


# ---------------------------------------------------------------------------------------------------- any step, any start


def test_a_step_is_the_same_wherever_the_run_began() -> None:
    last = 3 * loader().per_epoch + 2
    whole = list(loader().start(0, last))
    assert len(whole) == last
    for begin in (1, loader().per_epoch - 1, loader().per_epoch, 2 * loader().per_epoch + 1, last - 1):
        resumed = list(loader().start(begin, last))
        assert len(resumed) == last - begin
        assert all(same(a, b) for a, b in zip(whole[begin:], resumed))


def test_one_loader_may_start_again_and_go_back() -> None:
    one = loader()
    ahead = list(one.start(2 * one.per_epoch, 2 * one.per_epoch + 2))
    first = list(one.start(0, 2))
    assert same(first[0], loader().work(0))
    assert same(ahead[1], loader().work(2 * one.per_epoch + 1))


def test_two_streams_of_one_loader_do_not_disturb_each_other() -> None:
    """Each in another epoch, turn by turn: what one plans must not be served to the other."""
    one, count = loader(ahead=1), 3 * loader().per_epoch
    early, late = one.start(0, count), one.start(one.per_epoch, one.per_epoch + count)
    for step, (a, b) in enumerate(zip(early, late)):
        assert same(a, loader().work(step))
        assert same(b, loader().work(step + one.per_epoch))


def test_an_epoch_is_every_pair_once_and_the_next_another_order() -> None:
    one = loader()
    epochs = [[pair for step in range(one.per_epoch) for pair in pairs_in(one.work(e * one.per_epoch + step))] for e in range(2)]
    assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(len(DATA)))
    assert epochs[0] != epochs[1]


def test_batches_come_in_order_however_many_are_prepared_ahead() -> None:
    for ahead in (1, 2, 64):
        one = loader(ahead=ahead)
        steps = list(one.start(0, 20))
        assert [pairs_in(work) for work in steps] == [one.rows(step).tolist() for step in range(20)]


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=80),
    st.integers(1, 9),
    st.integers(1, 200),
    st.integers(0, 3),
    st.booleans(),
)
def test_no_batch_has_more_examples_than_it_may_and_none_is_lost(
    lengths: list[int], most: int, tokens: int, epoch: int, packed: bool
) -> None:
    ids = Ragged([[4] * length for length in lengths])
    texts = LabelledTexts(ids, np.array(lengths), np.zeros(len(lengths), np.int64))
    whole = LabelledBatches(texts, tokens, 1, packed)
    plan = bounded(whole, most).plan(epoch)
    assert sorted(row for rows in plan for row in rows) == list(range(len(lengths)))
    assert all(1 <= len(rows) <= most for rows in plan)
    assert len(plan) == len(bounded(whole, most).plan(epoch + 1)), "an epoch is as many steps as any other"
    assert all(np.array_equal(a, b) for a, b in zip(whole.plan(epoch), bounded(whole, 0).plan(epoch)))


def test_an_empty_range_yields_nothing() -> None:
    assert list(loader().start(5, 5)) == []


# --------------------------------------------------------------------------------------------------- ranks and micro-batches


@pytest.mark.parametrize("world", [1, 2, 4])
@pytest.mark.parametrize("accumulate", [1, 2, 3])
def test_ranks_and_micro_batches_share_a_step_out(world: int, accumulate: int) -> None:
    for step in (0, 3, loader().per_epoch + 1):
        shares = [loader(accumulate, rank, world).work(step) for rank in range(world)]
        together = [pair for share in shares for pair in pairs_in(share)]
        assert sorted(together) == sorted(loader().rows(step).tolist())
        sizes = [len(pairs_in(share)) for share in shares]
        assert max(sizes) - min(sizes) <= 1
        for share in shares:
            parts = [len(batch.source_BM) for batch in share.batches]
            assert len(parts) <= accumulate
            assert not parts or max(parts) - min(parts) <= 1


@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 40))
@settings(max_examples=40)
def test_no_part_is_empty_and_no_pair_is_lost(accumulate: int, world: int, step: int) -> None:
    shares = [loader(accumulate, rank, world).work(step) for rank in range(world)]
    assert all(len(batch.source_BM) for share in shares for batch in share.batches)
    assert len({len(share.batches) for share in shares}) == 1
    assert sorted(pair for share in shares for pair in pairs_in(share)) == sorted(loader().rows(step).tolist())


def test_no_data_is_told_before_training() -> None:
    with pytest.raises(UserError, match="nothing left to train on"):
        Loader(PairBatches(numbered_data(0), 24, 1))


# --------------------------------------------------------------------------------------------------------------- the thread


class Spoiled(Exception):
    pass


def test_a_mistake_in_the_thread_surfaces_at_its_step(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoiled(data: EncodedPairs, rows: np.ndarray) -> Batch:
        if 7 in rows:
            raise Spoiled("pair 7")
        return make_batch(data, rows)

    one = loader()
    spoiled_step = next(step for step in range(one.per_epoch) if 7 in one.rows(step))
    monkeypatch.setattr("regard.data.batching.pairs.make_batch", spoiled)
    stream = one.start(0, 100)
    assert len([next(stream) for _ in range(spoiled_step)]) == spoiled_step
    with pytest.raises(Spoiled, match="pair 7"):
        next(stream)


def test_leaving_early_ends_the_thread() -> None:
    stream = loader(ahead=2).start(0, 10**9)
    next(stream)
    assert len(loader_threads()) == 1
    stream.close()  # type: ignore[attr-defined]
    assert wait_for_no_threads()


def test_a_loop_that_breaks_ends_the_thread() -> None:
    for _ in loader().start(0, 10**9):
        assert loader_threads()
        break
    assert wait_for_no_threads()


def test_the_thread_prepares_as_many_as_it_was_told_and_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def counting(data: EncodedPairs, rows: np.ndarray) -> Batch:
        made.append(len(rows))
        return make_batch(data, rows)

    monkeypatch.setattr("regard.data.batching.pairs.make_batch", counting)
    stream = loader(ahead=3).start(0, 10**9)
    next(stream)
    deadline = time.monotonic() + 600
    while len(made) < 5 and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.25)
    assert len(made) == 5  # one in use, three ready, one in the thread's hands
    stream.close()  # type: ignore[attr-defined]
