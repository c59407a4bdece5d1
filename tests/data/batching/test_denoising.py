"""Batches of noised passages: the same for the same step, all of the text, packed as padded, counted without making them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.batching.denoising import NoisedPassages
from regard.data.batching.labelled import SpecialTokens
from regard.data.batching.masked import Passages
from regard.data.batching.noise import KINDS, fill_spans
from regard.data.batching.pairs import Batch, PackedBatch, Ragged
from regard.data.loader import Loader
from regard.text.specials import EOS, PAD, SOS
from tests.data.batching.test_noise import SENTINELS, noise_of

TEXTS = st.lists(st.lists(st.integers(4, 60), min_size=1, max_size=60), min_size=1, max_size=6)
MARKS = SpecialTokens(SOS, EOS, EOS)


def source(
    texts: list[list[int]], kinds: str, packed: bool = False, tokens: int = 90, mask_random: float = 0.0
) -> NoisedPassages:
    joined, noise = Ragged(texts), noise_of(kinds, mask_random=mask_random)
    return NoisedPassages(Passages(joined.flat, joined.offsets[:-1], 22, MARKS, 1), tokens, noise, packed)


@pytest.mark.parametrize("kinds", [*KINDS, "permutation+infilling"])
@given(TEXTS, st.integers(0, 3))
@settings(max_examples=15)
def test_a_resumed_loader_gives_the_same_batches(kinds: str, texts: list[list[int]], first: int) -> None:
    """One loader begins at step 0, the other at a later step, as after a crash."""
    words = 0.5 if "infilling" in kinds else 0.0
    whole, later = (Loader(source(texts, kinds, mask_random=words)) for _ in range(2))
    steps = [whole.work(step) for step in range(first + 3)][first:]
    for expected, work in zip(steps, later.start(first, first + 3)):
        one, other = expected.batches[0], work.batches[0]
        assert isinstance(one, Batch)
        assert isinstance(other, Batch)
        assert one.source_BM.equal(other.source_BM)
        assert one.target_out_BL.equal(other.target_out_BL)
        assert expected.tokens == work.tokens == one.tokens


@given(TEXTS, st.integers(0, 4))
@settings(max_examples=40)
def test_all_of_the_text_is_in_every_epoch(texts: list[list[int]], epoch: int) -> None:
    data = source(texts, "span_corruption")
    rows = epoch * len(data.passages) + np.arange(len(data.passages))
    found = np.concatenate([fill_spans(*pair, SENTINELS) for pair in data.pairs(rows)])
    assert found.tolist() == [i for text in texts for i in text]


@pytest.mark.parametrize("kinds", KINDS)
@given(TEXTS)
@settings(max_examples=15)
def test_packed_rows_are_the_padded_ones(kinds: str, texts: list[list[int]]) -> None:
    padded, packed = source(texts, kinds), source(texts, kinds, packed=True)
    for rows in padded.plan(0):
        one, other = padded.batch(rows, 0), packed.batch(rows, 0)
        assert isinstance(one, Batch)
        assert isinstance(other, PackedBatch)
        for rows_BL, flat in ((one.source_BM, other.source_BM), (one.target_out_BL, other.target_out_BL)):
            expected = [i for row in rows_BL.tolist() for i in row if i != PAD]
            assert flat[0, : len(expected)].tolist() == expected
        assert one.tokens == other.tokens == padded.count(rows) == int((one.target_out_BL != PAD).sum())


def test_inputs_and_targets_end_and_targets_begin() -> None:
    data = source([list(range(4, 30))], "masking")
    batch = data.batch(data.plan(0)[0], 0)
    assert isinstance(batch, Batch)
    assert (batch.target_in_BL[:, 0] == SOS).all()
    ends = batch.source_BM.gather(1, batch.source_lengths_B[:, None] - 1)
    assert (ends == EOS).all()


def test_scoring_has_the_same_noise_every_time() -> None:
    data = source([list(range(4, 60))] * 3, "infilling")
    once, again = ([batch.source_BM for batch in data.in_order()] for _ in range(2))
    assert len(once) > 1
    assert all(a.equal(b) for a, b in zip(once, again))
