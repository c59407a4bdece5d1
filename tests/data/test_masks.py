"""Masked words: how many, which fate, the same again for the same epoch, and the same packed or padded."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.batches import Ragged
from regard.data.masks import MaskedTexts, masked_words

MASK, WORDS = 99, range(5, 90)
TEXTS = st.lists(st.lists(st.integers(5, 89), min_size=1, max_size=40), min_size=1, max_size=8)


def source(texts, packed=False, tokens=10**6):
    return MaskedTexts(Ragged(texts), tokens, 1, MASK, WORDS, packed)


@given(TEXTS, st.integers(0, 5), st.booleans())
@settings(max_examples=40, deadline=None)
def test_15_percent_and_at_least_one(texts, epoch, packed):
    data = source(texts, packed)
    rows = np.arange(len(texts))
    batch = data.batch(rows, epoch)
    wanted = sum(max(1, round(0.15 * len(text))) for text in texts)
    assert batch.tokens == len(batch.masked_N) == len(batch.targets_N) == data.count(rows) == wanted
    assert len(set(batch.masked_N.tolist())) == wanted


@given(TEXTS, st.integers(0, 5))
@settings(max_examples=40, deadline=None)
def test_packed_and_padded_hold_the_same(texts, epoch):
    rows = np.arange(len(texts))
    padded, packed = source(texts).batch(rows, epoch), source(texts, packed=True).batch(rows, epoch)
    real = np.concatenate([row[: len(text)] for row, text in zip(padded.ids_BL.numpy(), texts)])
    assert real.tolist() == packed.ids_BL[0].tolist()
    assert padded.targets_N.tolist() == packed.targets_N.tolist()
    assert padded.ids_BL.flatten()[padded.masked_N].tolist() == packed.ids_BL[0][packed.masked_N].tolist()
    original = np.concatenate([np.array(text) for text in texts])
    assert original[packed.masked_N.numpy()].tolist() == packed.targets_N.tolist()


def test_fates_are_80_10_10_and_the_rest_is_untouched():
    text = list(np.random.default_rng(0).integers(5, 90, 60_000))
    batch = source([text], packed=True).batch(np.array([0]), 0)
    now, then = batch.ids_BL[0][batch.masked_N].numpy(), batch.targets_N.numpy()
    assert abs((now == MASK).mean() - 0.8) < 0.02
    assert abs(((now != MASK) & (now != then)).mean() - 0.1 * 84 / 85) < 0.01
    untouched = np.setdiff1d(np.arange(len(text)), batch.masked_N.numpy())
    assert (batch.ids_BL[0].numpy()[untouched] == np.array(text)[untouched]).all()


def test_masks_are_drawn_anew_each_epoch_and_do_not_depend_on_company():
    texts = [[5 + n % 80] * 30 for n in range(6)]
    data = source(texts, packed=True)
    alone, together, later = data.batch(np.array([3]), 0), data.batch(np.arange(6), 0), data.batch(np.array([3]), 1)
    assert alone.ids_BL[0].tolist() == together.ids_BL[0, 90:120].tolist()
    assert alone.masked_N.tolist() != later.masked_N.tolist()


def test_a_plan_has_every_text_once():
    lengths = np.random.default_rng(1).integers(1, 30, 50)
    data = source([[5] * n for n in lengths], tokens=64)
    assert sorted(np.concatenate(data.plan(0))) == list(range(50))
    assert len(data.plan(0)) == len(data.plan(1))
    assert masked_words(10) == 2
