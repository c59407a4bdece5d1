"""The best tokens of a row, against a full stable sort."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.decode.offers import Offers, first_largest, log_probabilities


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    rows=st.integers(1, 5),
    size=st.integers(1, 300),
    count=st.integers(1, 12),
    levels=st.sampled_from([1, 2, 5, 1000]),
)
def test_first_largest_is_the_head_of_a_stable_sort(seed: int, rows: int, size: int, count: int, levels: int) -> None:
    values = torch.randint(levels, (rows, size), generator=torch.Generator().manual_seed(seed)).float()
    values[values == 0] = -torch.inf
    sorted_values, indices = values.sort(dim=1, descending=True, stable=True)
    top, index = first_largest(values, count)
    assert torch.equal(top, sorted_values[:, :count])
    assert torch.equal(index, indices[:, :count])


def test_log_probabilities_leave_the_logits_alone_and_keep_empty_rows_empty() -> None:
    logits = torch.tensor([[0.0, 1.0], [-torch.inf, -torch.inf]])
    before = logits.clone()
    offers = Offers(eos=0, banned=(1,), minimum=1, device=torch.device("cpu"))
    logprob, _ = offers.best(logits, 2, position=0)
    assert torch.equal(logits, before)
    assert logprob.isneginf().all()
    assert torch.equal(log_probabilities(logits)[0], torch.log_softmax(logits[0], 0))


def test_a_row_may_end_from_its_minimum_on() -> None:
    offers = Offers(eos=0, banned=(), minimum=2, device=torch.device("cpu"))
    logits = torch.tensor([[5.0, 1.0, 2.0]])
    assert [offers.best(logits, 1, position)[1].item() for position in range(4)] == [2, 2, 0, 0]
