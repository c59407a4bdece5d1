"""What the page is sent against the whole matrix of weights, built at once by the mixer itself."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.model.mixers.softmax import Softmax
from regard.model.probe import Seen
from regard.model.visibility import causal, full
from regard.studio import passes as matrices


def seen_of(heads: int, queries: int, keys: int, seed: int = 0, causally: bool = False) -> Seen:
    draw = torch.Generator().manual_seed(seed)
    q, k, v = (3 * torch.randn(1, heads, length, 4, generator=draw) for length in (queries, keys, keys))
    pattern = causal if causally else full
    return Seen(Softmax(), q, k, v, pattern.over(queries, keys, device=torch.device("cpu")))


def whole(seen: Seen) -> np.ndarray:
    return seen.weights()[0].numpy()


@given(st.integers(1, 3), st.integers(1, 40), st.integers(1, 40), st.data())
@settings(max_examples=40)
def test_any_rows_and_columns_are_those_of_the_whole(heads: int, queries: int, keys: int, data: st.DataObject) -> None:
    seen = seen_of(heads, queries, keys)
    r, c = (data.draw(st.integers(0, n - 1)) for n in (queries, keys))
    rows, columns = range(r, data.draw(st.integers(r + 1, queries))), range(c, data.draw(st.integers(c + 1, keys)))
    some = data.draw(st.lists(st.integers(0, heads - 1), min_size=1, max_size=3))
    found = matrices.exact(seen, some, rows, columns)
    np.testing.assert_allclose(found, whole(seen)[some][:, rows.start : rows.stop, columns.start : columns.stop], atol=1e-6)


@given(st.integers(1, 70), st.integers(1, 70), st.integers(1, 20))
@settings(max_examples=40)
def test_pooling_takes_the_largest_of_each_tile(queries: int, keys: int, size: int) -> None:
    seen = seen_of(2, queries, keys)
    found = matrices.pooled(seen, [1], range(queries), range(keys), size)[0]
    tall, wide = (-(-n // size) for n in (queries, keys))
    assert max(found.shape) <= size
    all_ = whole(seen)[1]
    for y, row in enumerate(found):
        for x, largest in enumerate(row):
            assert largest == pytest.approx(all_[y * tall : (y + 1) * tall, x * wide : (x + 1) * wide].max(), abs=1e-6)


def test_blocks_are_small_and_together_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrices, "BLOCK", 100)
    seen = seen_of(2, 30, 30, causally=True)
    parts = list(matrices.blocks(seen, range(2), range(30)))
    assert len(parts) == 30
    assert all(weights.size <= 100 for _, weights in parts)
    np.testing.assert_allclose(np.concatenate([weights for _, weights in parts], 1), whole(seen), atol=1e-6)
    np.testing.assert_allclose(matrices.pooled(seen, [0], range(30), range(30), 30)[0], whole(seen)[0], atol=1e-6)


def test_thumbnails_are_scaled_to_the_largest_of_each_head() -> None:
    seen = seen_of(3, 20, 12)
    found = matrices.thumbnails(seen)
    assert found.dtype == np.uint8
    assert found.shape == (3, 20, 12)
    assert (found.max((1, 2)) == 255).all()
    weights = whole(seen)
    np.testing.assert_allclose(found / 255, weights / weights.max((1, 2), keepdims=True), atol=1 / 255)
    assert matrices.thumbnails(seen_of(1, 100, 65)).shape == (1, 25, 22)
