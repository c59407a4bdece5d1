"""Inputs and measures that every export to an engine shares."""

from __future__ import annotations

import math

import pytest
import torch

from regard.core.errors import UserError
from regard.interop.exported import FAR, INPUTS, Measure, difference, largest, must_agree, padded, random_rows


def test_inputs_have_many_lengths_and_none_is_too_long() -> None:
    for room in (1, 5, 24, 100, 1000):
        rows = random_rows(50, {0, 3}, room, seed=1)
        lengths = [len(row) for row in rows]
        assert len(rows) == INPUTS
        assert min(lengths) == 1
        assert max(lengths) == min(room, FAR)
        assert {0, 3}.isdisjoint(i for row in rows for i in row)
    assert rows == random_rows(50, {0, 3}, 1000, seed=1)
    assert rows != random_rows(50, {0, 3}, 1000, seed=2)


def test_rows_are_padded_at_the_right() -> None:
    ids_BL, lengths_B = padded([[5, 6, 7], [8]], 9)
    assert ids_BL.tolist() == [[5, 6, 7], [8, 9, 9]]
    assert lengths_B.tolist() == [3, 1]


def test_a_difference_is_relative_to_large_numbers_alone() -> None:
    assert difference([0.5, 0.1], torch.tensor([0.25, 0.1])) == 0.25
    assert difference([10.0, 11.0], torch.tensor([10.0, 10.0])) == pytest.approx(0.1)
    assert math.isnan(difference([1.0], torch.tensor([1.0, 2.0])))
    assert math.isnan(difference([math.nan], torch.tensor([1.0])))


def test_no_number_is_the_largest() -> None:
    assert largest([0.1, 0.3, 0.2]) == pytest.approx(0.3)
    assert math.isnan(largest([0.1, math.nan, 0.2]))


@pytest.mark.parametrize("found", [0.2, math.inf, math.nan])
def test_more_than_the_limit_and_what_is_no_number_are_refused(found: float) -> None:
    with pytest.raises(UserError, match="An engine and this run differ"):
        must_agree([Measure("difference", 0.0, 0.1), Measure("difference", found, 0.1)], "An engine")


def test_an_agreement_must_be_reached() -> None:
    must_agree([Measure("equal words", 0.9, 0.9, agreement=True), Measure("difference", 0.1, 0.1)], "An engine")
    with pytest.raises(UserError, match="at least 90% is allowed"):
        must_agree([Measure("equal words", 0.89, 0.9, agreement=True)], "An engine")
