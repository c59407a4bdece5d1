"""Masked words: how many, which fate, never a mark; the same again for the same epoch, and the same packed or padded."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.packing import IGNORED
from regard.data.batching.labelled import SpecialTokens
from regard.data.batching.masked import MaskedBatch, MaskedPassages, Masking, Passages
from regard.data.batching.pairs import Ragged

MASK, UNKNOWN, WORDS = 99, 4, range(5, 90)
MARKS = SpecialTokens(1, 2, 3)
SPECIAL = {0, 1, 2, 3, UNKNOWN, MASK}
TEXTS = st.lists(st.lists(st.integers(UNKNOWN, 89), min_size=2, max_size=40), min_size=1, max_size=8)
SHARES = st.sampled_from([0.05, 0.15, 0.4])


def source(
    texts: list[list[int]], packed: bool = False, pairs: bool = False, tokens: int = 10**6, **choices: Any
) -> MaskedPassages:
    joined = Ragged(texts)
    passages = Passages(joined.flat, joined.offsets[:-1], 23, MARKS, 1, pairs)
    return MaskedPassages(passages, tokens, Masking(1, MASK, WORDS, **choices), packed, judged=True)


def batch_of(data: MaskedPassages, rows: np.ndarray, epoch: int) -> MaskedBatch:
    """Without the filler behind packed passages."""
    batch, tokens, texts = data.batch(rows, epoch), int(data.passages.take(rows).lengths_N.sum()), len(rows)
    if not data.packed:
        return batch
    real = batch.targets_M != IGNORED
    assert (batch.masked_M[~real] >= tokens).all()
    assert not batch.wanted_N[texts:].any()
    return replace(
        batch,
        ids_BL=batch.ids_BL[:, :tokens],
        masked_M=batch.masked_M[real],
        targets_M=batch.targets_M[real],
        chance_M=batch.chance_M[real],
        wanted_N=batch.wanted_N[:texts],
        segments_BL=None if batch.segments_BL is None else batch.segments_BL[:, :tokens],
        strange_N=None if batch.strange_N is None else batch.strange_N[:texts],
    )


def rows_of(data: MaskedPassages, epoch: int) -> np.ndarray:
    return epoch * len(data.passages) + np.arange(len(data.passages))


@given(TEXTS, st.integers(0, 5), SHARES)
@settings(max_examples=60)
def test_exactly_the_share_of_every_passage_and_at_least_one(texts: list[list[int]], epoch: int, share: float) -> None:
    data = source(texts, packed=True, share=share)
    rows = rows_of(data, epoch)
    batch, own = batch_of(data, rows, epoch), data.passages.take(rows)
    ends = np.cumsum(own.lengths_N)
    for end, length, wanted in zip(ends, own.lengths_N, batch.wanted_N.tolist()):
        ids = own.ids_T[end - length : end]
        words = np.isin(ids, WORDS).sum()
        assert wanted == max(1, round(share * (length - 2)))
        here = (batch.masked_M.numpy() >= end - length) & (batch.masked_M.numpy() < end)
        assert here.sum() == min(wanted, words)
    assert batch.tokens == data.count(rows) == batch.wanted_N.sum()
    assert (np.diff(batch.masked_M.numpy()) > 0).all()


@given(TEXTS, st.integers(0, 5), st.booleans(), st.booleans())
@settings(max_examples=60)
def test_specials_are_neither_masked_nor_put_in(texts: list[list[int]], epoch: int, packed: bool, pairs: bool) -> None:
    data = source([*texts, list(WORDS)], packed, pairs)
    rows = rows_of(data, epoch)
    batch = batch_of(data, rows, epoch)
    assert not set(batch.targets_M.tolist()) & SPECIAL
    assert not set(batch.ids_BL.flatten()[batch.masked_M].tolist()) & (SPECIAL - {MASK})
    own = batch.ids_BL.flatten().scatter(0, batch.masked_M, batch.targets_M)
    assert batch.judged_T is not None
    assert not set(own[batch.judged_T].tolist()) & SPECIAL
    judged = set(batch.judged_T.tolist())
    assert set(batch.masked_M.tolist()) <= judged
    assert len(judged) == np.isin(data.passages.take(rows).ids_T, WORDS).sum()


@given(TEXTS, st.integers(0, 5), st.booleans())
@settings(max_examples=40)
def test_packed_and_padded_hold_the_same(texts: list[list[int]], epoch: int, pairs: bool) -> None:
    texts = [*texts, list(WORDS)]
    rows = rows_of(source(texts, pairs=pairs), epoch)
    padded, packed = (batch_of(source(texts, packed, pairs), rows, epoch) for packed in (False, True))
    real = np.arange(padded.ids_BL.shape[1]) < padded.words.numpy()[:, None]
    assert padded.ids_BL.numpy()[real].tolist() == packed.ids_BL[0].tolist()
    assert padded.targets_M.tolist() == packed.targets_M.tolist()
    for a, b in ((padded.masked_M, packed.masked_M), (padded.judged_T, packed.judged_T)):
        assert padded.ids_BL.flatten()[a].tolist() == packed.ids_BL[0][b].tolist()
    if pairs:
        assert padded.segments_BL.numpy()[real].tolist() == packed.segments_BL[0].tolist()
        assert padded.strange_N.tolist() == packed.strange_N.tolist()
    assert padded.chance_M.tolist() == packed.chance_M.tolist()


def test_fates_are_80_10_10_and_the_rest_is_untouched() -> None:
    texts = [np.random.default_rng(0).integers(5, 90, 60_000).tolist()]
    data = source(texts, packed=True)
    rows = rows_of(data, 0)
    batch, own = batch_of(data, rows, 0), data.passages.take(rows).ids_T
    now, then = batch.ids_BL[0][batch.masked_M].numpy(), batch.targets_M.numpy()

    def near(found: float, expected: float) -> bool:
        return abs(found - expected) < 4 * math.sqrt(expected * (1 - expected) / len(now))

    assert near((now == MASK).mean(), 0.8)
    assert near(((now != MASK) & (now != then)).mean(), 0.1 * 84 / 85)
    assert near((now == then).mean(), 0.1 + 0.1 / 85)
    untouched = np.setdiff1d(np.arange(len(own)), batch.masked_M.numpy())
    assert (batch.ids_BL[0].numpy()[untouched] == own[untouched]).all()
    assert (own[batch.masked_M.numpy()] == then).all()
    put_in = now[(now != MASK) & (now != then)]
    assert len(set(put_in)) == len(WORDS)


def test_every_place_is_masked_as_often_as_any() -> None:
    data = source([list(range(5, 25))], share=0.25)
    found = np.concatenate([batch_of(data, rows_of(data, epoch), epoch).masked_M.numpy() for epoch in range(2000)])
    counts = np.bincount(found, minlength=22)
    assert counts[0] == counts[21] == 0
    assert abs(counts[1:21] - 500).max() < 4 * math.sqrt(2000 * 0.25 * 0.75)


def test_masks_are_drawn_anew_each_epoch_and_do_not_depend_on_company() -> None:
    data = source([[5 + n % 80] * 20 for n in range(6)], packed=True)
    alone, together, later = batch_of(data, np.array([3]), 0), batch_of(data, np.arange(6), 0), batch_of(data, np.array([9]), 1)
    assert alone.ids_BL[0].tolist() == together.ids_BL[0, 66:88].tolist()
    assert alone.masked_M.tolist() != later.masked_M.tolist()
    assert alone.chance_M.tolist() == together.chance_M[9:12].tolist() != later.chance_M.tolist()
    again = batch_of(source([[5 + n % 80] * 20 for n in range(6)], packed=True), np.array([9]), 1)
    assert later.ids_BL.tolist() == again.ids_BL.tolist()


@given(TEXTS, st.integers(0, 3), SHARES)
@settings(max_examples=60)
def test_whole_words_are_masked_with_all_their_pieces(texts: list[list[int]], epoch: int, share: float) -> None:
    goes_on = np.zeros(100, bool)
    goes_on[50:90] = True
    data = source(texts, packed=True, share=share, continues=goes_on)
    rows = rows_of(data, epoch)
    batch, own = batch_of(data, rows, epoch), data.passages.take(rows).ids_T
    masked = np.zeros(len(own), bool)
    masked[batch.masked_M.numpy()] = True
    together = np.isin(own[1:], WORDS) & goes_on[own[1:]] & np.isin(own[:-1], WORDS)
    assert (masked[1:][together] == masked[:-1][together]).all()
    assert len(batch.masked_M) <= batch.tokens


def test_whole_words_fill_the_share_where_single_pieces_are_left() -> None:
    goes_on = np.zeros(100, bool)
    goes_on[50:] = True
    text = [5, 60, 61, 7, 8] * 4  # words of three pieces, and of one
    data = source([text], packed=True, share=0.4, continues=goes_on)
    sizes = [len(batch_of(data, np.array([epoch]), epoch).masked_M) for epoch in range(200)]
    assert set(sizes) == {8}


def test_a_plan_has_every_passage_once() -> None:
    lengths = np.random.default_rng(1).integers(1, 30, 50)
    data = source([[5] * n for n in lengths], tokens=64)
    for epoch in (0, 1):
        assert sorted(np.concatenate(data.plan(epoch))) == rows_of(data, epoch).tolist()
    assert len(data.plan(0)) == len(data.plan(1))
    assert [batch.tokens for batch in data.in_order()] == [data.count(rows) for rows in data.plan(0)]
