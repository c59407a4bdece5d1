"""The map's axes are those of the greatest variance, by another way to find them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.lens.analyses.word_map import MOST, _placed, word_map


@settings(max_examples=20)
@given(st.integers(0, 1000), st.integers(3, 12), st.integers(1, 6))
def test_the_axes_are_eigenvectors_of_the_covariance(seed: int, words: int, width: int) -> None:
    vectors = np.random.default_rng(seed).normal(size=(words, width))
    found = word_map([str(n) for n in range(words)], vectors)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    values, axes = np.linalg.eigh(np.cov(unit.T, bias=True).reshape(width, width))
    for n in range(min(2, width)):
        along = (unit - unit.mean(0)) @ axes[:, -1 - n]
        if values[-1 - n] > 1e-9 and (n == 1 or width == 1 or values[-1] - values[-2] > 1e-3):
            assert found.points_N2[:, n] @ found.points_N2[:, n] == pytest.approx(along @ along, rel=1e-6)
    assert found.kept == pytest.approx(values[-2:].sum() / values.sum() if values.sum() > 1e-12 else 1.0)
    assert all(column[np.abs(column).argmax()] >= 0 for column in found.points_N2.T)


def test_names_keep_out_of_each_others_way() -> None:
    at = np.zeros((4, 2))
    rows = [y for _, y in _placed(["one"] * 4, at)]
    assert len(set(rows)) == 4


def test_it_draws_and_tells(tmp_path: object) -> None:
    found = word_map(["a", "$b$", "c" * 60], np.eye(3))
    assert len(found.lines()) == 4
    assert found.figure().axes
    assert "<img" in found._repr_html_()


@pytest.mark.parametrize("count", [2, MOST + 1])
def test_too_few_and_too_many_words_are_refused(count: int) -> None:
    with pytest.raises(UserError, match=f"these are {count}"):
        word_map([str(n) for n in range(count)], np.zeros((count, 2)))
