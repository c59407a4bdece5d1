"""Whole texts to be filled in: every text once an epoch, whole, and masked by its number alone."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.batching.masked import MaskedPassages, Masking, WholeTexts
from regard.data.batching.pairs import Ragged

texts = st.lists(st.lists(st.integers(5, 9), min_size=1, max_size=9), min_size=1, max_size=12)


def source(given: list[list[int]], tokens: int, packed: bool = False, share: float = 0.3) -> MaskedPassages:
    whole = WholeTexts(Ragged([[1, *text, 2] for text in given]), seed=3)
    return MaskedPassages(whole, tokens, Masking(3, 4, np.arange(5, 10), share), packed)


@settings(max_examples=30)
@given(texts, st.integers(4, 60), st.integers(0, 3))
def test_an_epoch_has_every_text_once(given: list[list[int]], tokens: int, epoch: int) -> None:
    found = source(given, tokens)
    plan = found.plan(epoch)
    assert sorted(np.concatenate(plan).tolist()) == list(range(epoch * len(given), (epoch + 1) * len(given)))
    assert len(plan) == len(found.plan(0))


@settings(max_examples=30)
@given(texts, st.booleans())
def test_what_is_filled_in_gives_the_text_again(given: list[list[int]], packed: bool) -> None:
    found = source(given, 10**6, packed)
    (rows,) = found.plan(1)
    batch = found.batch(rows, 1)
    own = batch.ids_BL.flatten().clone()
    there = batch.targets_M >= 0
    own[batch.masked_M[there]] = batch.targets_M[there]
    if packed:
        starts = batch.words.starts_N.tolist()  # type: ignore[union-attr]
        texts_ = [own[a:b].tolist() for a, b in pairwise(starts)][: len(rows)]
    else:
        texts_ = [row[:length].tolist() for row, length in zip(own.view_as(batch.ids_BL), batch.words.tolist())]  # type: ignore[union-attr]
    assert texts_ == [[1, *given[row % len(given)], 2] for row in rows]
    assert batch.tokens == sum(max(1, round(0.3 * len(text))) for text in given)


def test_masks_are_others_in_another_epoch() -> None:
    found = source([[5, 6, 7, 8, 9, 5, 6, 7]] * 4, 10**6, share=0.5)
    first, second, again = (found.batch(found.plan(epoch)[0], epoch).masked_M.tolist() for epoch in (0, 1, 0))
    assert first == again
    assert first != second
