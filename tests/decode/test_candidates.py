"""The best tokens of a row, against a full stable sort; what is fixed against what looks first."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.decode.candidates import Candidates, log_probabilities, topk_by_key, topk_by_sorting
from regard.decode.constraints import Constraints

CPU = torch.device("cpu")
both = pytest.mark.parametrize("fixed", [True, False])


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    rows=st.integers(1, 5),
    size=st.integers(1, 300),
    count=st.integers(1, 12),
    levels=st.sampled_from([1, 2, 5, 1000]),
)
def test_the_first_largest_are_the_head_of_a_stable_sort(seed: int, rows: int, size: int, count: int, levels: int) -> None:
    values = -torch.randint(levels, (rows, size), generator=torch.Generator().manual_seed(seed)).float() / 7
    values[values == values.min()] = -torch.inf
    indices = values.sort(dim=1, descending=True, stable=True).indices
    assert torch.equal(topk_by_sorting(values, count), indices[:, :count])
    assert torch.equal(topk_by_key(values, count), indices[:, :count])


def test_zeros_of_both_signs_tie() -> None:
    assert topk_by_key(torch.tensor([[-0.0, 0.0, -1.0], [0.0, -0.0, -1.0]]), 2).tolist() == [[0, 1], [0, 1]]


@both
def test_the_logits_are_left_alone_and_empty_rows_offer_nothing(fixed: bool) -> None:
    logits = torch.tensor([[0.0, 1.0, 0.5], [-torch.inf, -torch.inf, -torch.inf]])
    before = logits.clone()
    candidates = Candidates(Constraints(eos=0, banned=(1,), minimum_length=1), CPU, fixed=fixed)
    logprob, token, broken = candidates.best(logits, 2, torch.tensor([0]))
    assert torch.equal(logits, before)
    assert token[0, 0] == 2
    assert logprob.isneginf().tolist() == [[False, True], [True, True]]
    assert not broken.any()
    assert torch.equal(log_probabilities(logits, fixed=fixed)[0][0], torch.log_softmax(logits[0], 0))


@both
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_one_bad_number_breaks_its_row_and_no_other(fixed: bool, bad: float) -> None:
    logits = torch.zeros(4, 5)
    logits[1] = -torch.inf
    logits[2] = -torch.inf
    logits[2, 3] = bad
    logits[3, 4] = bad
    _, empty, broken = log_probabilities(logits, fixed=fixed)
    assert empty.tolist() == [False, True, False, False]
    assert broken.tolist() == [False, False, True, True]


@both
@pytest.mark.parametrize("count", [1, 2])
def test_a_row_may_end_from_its_minimum_on(fixed: bool, count: int) -> None:
    candidates = Candidates(Constraints(eos=0, minimum_length=2), CPU, fixed=fixed)
    logits = torch.tensor([[5.0, 1.0, 2.0]])
    assert [candidates.best(logits, count, torch.tensor([step])).token_BK[0, 0].item() for step in range(4)] == [2, 2, 0, 0]
