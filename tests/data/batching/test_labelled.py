"""Batches of labelled texts: every text once an epoch, between its marks, cut fairly, padded and packed alike."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.packing import IGNORED, Packing
from regard.data.batching.labelled import LabelledBatches, LabelledTexts, SpecialTokens, make_batch
from regard.data.batching.pairs import Ragged

START, BETWEEN, END = 101, 102, 103
MARKS = SpecialTokens(START, BETWEEN, END)
ids = st.lists(st.integers(4, 90), max_size=20)
texts = st.lists(ids, min_size=1, max_size=2)


@given(texts, st.integers(4, 50), st.booleans())
@settings(max_examples=150)
def test_texts_stand_between_their_marks(given_ids: list[list[int]], room: int, twice: bool) -> None:
    marks = MARKS._replace(twice=twice)
    found, second = marks.around(given_ids, room)
    assert len(found) == min(room, marks.length(given_ids))
    assert (found[0], found[-1]) == (START, END)
    if len(given_ids) == 1:
        assert found[1:-1] == given_ids[0][: room - 2]
        assert second == len(found)
        return
    first = found[1:].index(BETWEEN) + 1
    assert found[first:second] == [BETWEEN] * (1 + twice)
    kept = found[1:first], found[second:-1]
    assert all(part == whole[: len(part)] for part, whole in zip(kept, given_ids))
    if len(found) < marks.length(given_ids):  # the longer one gives way until both are as long
        cut = [len(part) < len(whole) for part, whole in zip(kept, given_ids)]
        lengths = [len(part) for part in kept]
        assert all(lengths[n] >= lengths[1 - n] - 1 for n in (0, 1) if cut[n])


def test_two_marks_between_texts_take_room_too() -> None:
    """As RoBERTa has them; a text alone has none."""
    twice = MARKS._replace(twice=True)
    assert twice.around([[5, 6], [7]], 99) == ([START, 5, 6, BETWEEN, BETWEEN, 7, END], 5)
    assert twice.around([[5, 6]], 99) == MARKS.around([[5, 6]], 99)
    assert (twice.length([[5, 6], [7]]), twice.length([[5, 6]])) == (7, 4)
    assert twice.around([[5] * 9, [7] * 9], 10) == ([START, 5, 5, 5, BETWEEN, BETWEEN, 7, 7, 7, END], 6)


def encoded(count: int = 60, seed: int = 0) -> LabelledTexts:
    draw = np.random.default_rng(seed)
    rows = [
        MARKS.around([draw.integers(4, 90, draw.integers(1, 9)).tolist() for _ in range(1 + n % 2)], 99) for n in range(count)
    ]
    seconds = np.array([second for _, second in rows])
    return LabelledTexts(Ragged([row for row, _ in rows]), seconds, draw.integers(0, 3, count))


@given(st.integers(10, 200), st.integers(0, 5))
@settings(max_examples=25)
def test_an_epoch_has_every_text_once_within_the_budget(tokens: int, epoch: int) -> None:
    data = encoded()
    source = LabelledBatches(data, tokens, seed=3)
    plan = source.plan(epoch)
    assert sorted(np.concatenate(plan).tolist()) == list(range(60))
    assert all(len(rows) == 1 or len(rows) * data.ids.lengths[rows].max() <= tokens for rows in plan)
    assert len(plan) == len(source.plan(epoch + 1))
    assert [rows.tolist() for rows in plan] == [rows.tolist() for rows in LabelledBatches(data, tokens, seed=3).plan(epoch)]


@given(st.integers(10, 200), st.integers(0, 5))
@settings(max_examples=25)
def test_packed_texts_are_dealt_to_as_many_batches_of_all_lengths(tokens: int, epoch: int) -> None:
    data = encoded()
    plan, padded = (LabelledBatches(data, tokens, seed=3, packed=packed).plan(epoch) for packed in (True, False))
    assert sorted(np.concatenate(plan).tolist()) == list(range(60))
    assert len(plan) == len(padded)
    counts, sums = [len(rows) for rows in plan], [int(data.ids.lengths[rows].sum()) for rows in plan]
    assert max(counts) - min(counts) <= 1
    assert max(sums) - min(sums) <= data.ids.lengths.max()


def test_no_texts_are_no_batches() -> None:
    nothing = LabelledTexts(Ragged([]), np.array([], np.int64), np.array([], np.int64))
    assert [LabelledBatches(nothing, 50, 1, packed).plan(0) for packed in (False, True)] == [[], []]


def test_epochs_and_seeds_differ() -> None:
    for packed in (False, True):
        sources = [(LabelledBatches(encoded(), 50, seed, packed), epoch) for seed, epoch in ((1, 0), (1, 1), (2, 0))]
        plans = [np.concatenate(source.plan(epoch)).tolist() for source, epoch in sources]
        assert plans[0] != plans[1] != plans[2] != plans[0]


def test_padded_and_packed_hold_the_same() -> None:
    data, rows = encoded(), np.array([5, 2, 11, 40])
    one, other = make_batch(data, rows), make_batch(data, rows, packed=True)
    assert isinstance(one.words, torch.Tensor)
    assert isinstance(other.words, Packing)
    assert one.tokens == other.tokens == LabelledBatches(data, 99, 0).count(rows) == 4
    assert one.labels_N.tolist() == other.labels_N[:4].tolist() == data.labels[rows].tolist()
    assert set(other.labels_N[4:].tolist()) == {IGNORED}
    assert other.words.starts_N.diff()[:4].tolist() == one.words.tolist()
    starts = other.words.starts_N.tolist()
    for n, row in enumerate(rows):
        length, text = int(one.words[n]), data.ids[row].tolist()
        segments = [int(place >= data.seconds[row]) for place in range(length)]
        assert one.ids_BL[n, :length].tolist() == other.ids_BL[0, starts[n] : starts[n + 1]].tolist() == text
        assert one.segments_BL[n, :length].tolist() == other.segments_BL[0, starts[n] : starts[n + 1]].tolist() == segments
        assert not one.ids_BL[n, length:].any()


def test_in_order_is_every_text_once() -> None:
    data = encoded()
    batches = LabelledBatches(data, 40, 0).in_order()
    assert sum(batch.tokens for batch in batches) == len(data)
    assert sorted(torch.cat([batch.labels_N for batch in batches]).tolist()) == sorted(data.labels.tolist())


def test_the_digest_sees_every_part() -> None:
    one, other = encoded(), encoded()
    assert one.digest() == other.digest()
    other.labels[3] = (other.labels[3] + 1) % 3
    assert one.digest() != other.digest()
    assert encoded(seed=1).digest() != one.digest()
