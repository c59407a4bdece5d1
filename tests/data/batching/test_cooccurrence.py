"""Counts are those of two loops over the text, however it is cut, and every entry comes once an epoch."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.data.batching import word_vectors as module
from regard.data.batching.word_vectors import EntrySource, WordText, cooccurrences


def text_of(sentences: list[list[int]], words: int) -> WordText:
    ids = np.array([word for sentence in sentences for word in sentence], np.int32)
    starts = np.cumsum([0, *(len(sentence) for sentence in sentences)])[:-1]
    return WordText(tuple(map(str, range(words))), np.bincount(ids, minlength=words), ids, starts)


sentences = st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=12), min_size=1, max_size=8)


@settings(max_examples=40)
@given(sentences, st.integers(1, 6), st.booleans(), st.booleans(), st.integers(3, 40))
def test_counts_are_those_of_two_loops(
    given_: list[list[int]], window: int, symmetric: bool, by_distance: bool, stretch: int
) -> None:
    expected: Counter[tuple[int, int]] = Counter()
    for sentence in given_:
        for i, word in enumerate(sentence):
            for j in range(max(0, i - window), i):
                amount = 1 / (i - j) if by_distance else 1.0
                expected[word, sentence[j]] += amount  # type: ignore[assignment]
                if symmetric:
                    expected[sentence[j], word] += amount  # type: ignore[assignment]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "STRETCH", stretch)
        if not expected:
            with pytest.raises(UserError, match="no word of the text has another"):
                cooccurrences(text_of(given_, 6), window)
            return
        rows, columns, counts = cooccurrences(text_of(given_, 6), window, symmetric=symmetric, by_distance=by_distance)
    found = {(int(i), int(j)): float(x) for i, j, x in zip(rows, columns, counts)}
    assert found == pytest.approx(dict(expected))


def test_every_entry_comes_once_an_epoch_in_another_order() -> None:
    counts = cooccurrences(text_of([[0, 1, 2, 3, 4, 5] * 4], 6), 3)
    source = EntrySource(counts, batch=5, seed=1, part=2)
    orders = []
    for epoch in (0, 1):
        parts = [part for step in range(source.per_epoch) for part in source.parts(epoch * source.per_epoch + step)]
        assert max(len(part.rows_E) for part in parts) <= 2
        pairs = [tuple(pair) for part in parts for pair in zip(part.rows_E.tolist(), part.columns_E.tolist())]
        assert sorted(pairs) == sorted(zip(counts.rows_E.tolist(), counts.columns_E.tolist()))
        orders.append(pairs)
    assert orders[0] != orders[1]
    assert source.count(source.per_epoch) == len(counts.counts_E)
    again = EntrySource(counts, batch=5, seed=1, part=2).parts(source.per_epoch + 1)
    assert all(torch.equal(a, b) for x, y in zip(again, source.parts(source.per_epoch + 1)) for a, b in zip(x, y))
