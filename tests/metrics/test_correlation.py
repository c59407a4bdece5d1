"""Correlations: what their definitions give, whatever ties and scales there are."""

from __future__ import annotations

import json
from statistics import correlation as standard

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.metrics.correlation import SimilarityScores, correlation, ranks

numbers = st.integers(-50, 50).map(lambda n: n / 4)
pairs = st.lists(st.tuples(numbers, numbers), min_size=2, max_size=30)


def varies(values: list[float]) -> bool:
    return min(values) < max(values)


def counted(values: list[float]) -> list[float]:
    """Ranks, by how many are smaller and how many as large."""
    return [sum(v < value for v in values) + (1 + sum(v == value for v in values)) / 2 for value in values]


@given(pairs)
@settings(max_examples=120)
def test_as_pythons_statistics_have_them(drawn: list[tuple[float, float]]) -> None:
    true, said = map(list, zip(*drawn))
    found = SimilarityScores.of(np.array(true), np.array(said))
    if varies(true) and varies(said):
        assert found.pearson == pytest.approx(standard(true, said), abs=1e-9)
        assert found.spearman == pytest.approx(standard(counted(true), counted(said)), abs=1e-9)
    else:
        assert (found.pearson, found.spearman) == (0, 0)
    assert found.off == pytest.approx(sum(abs(t - s) for t, s in drawn) / len(drawn))
    assert found.texts == len(drawn)


@given(st.lists(numbers, min_size=1, max_size=25))
@settings(max_examples=60)
def test_ranks_by_counting(values: list[float]) -> None:
    assert ranks(np.array(values)).tolist() == counted(values)


def test_order_and_lines_are_told_apart() -> None:
    true = np.arange(1.0, 9.0)
    assert SimilarityScores.of(true, true**3).spearman == pytest.approx(1)
    assert SimilarityScores.of(true, true**3).pearson < 0.95
    assert SimilarityScores.of(true, 7 - 2 * true).pearson == pytest.approx(-1)
    assert correlation(true, np.full(8, 0.1)) == 0.0


def test_as_scipy_has_them() -> None:
    from scipy import stats

    draw = np.random.default_rng(0)
    true, said = draw.integers(0, 6, 200) / 1.0, draw.normal(size=200).round(1)
    found = SimilarityScores.of(true, said)
    assert found.pearson == pytest.approx(stats.pearsonr(true, said)[0])
    assert found.spearman == pytest.approx(stats.spearmanr(true, said)[0])


def test_people_and_machines_are_told_the_same() -> None:
    found = SimilarityScores.of(np.array([0.0, 2.0, 4.0]), np.array([1.0, 2.0, 5.0]))
    assert found.lines()[0] == "Pearson     0.9608  3 texts"
    assert found.lines()[2] == "off by      0.6667  on average; one answer for all: 1.3333"
    assert json.loads(json.dumps(found.as_dict()))["spearman"] == 1.0
