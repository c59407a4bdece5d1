"""Pooling by a learned query: the formula of the paper, whatever stands in the padding; and the seam sees it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from regard.model.init import initialise
from regard.model.learned_query import LearnedQuery
from regard.model.probe import attentions, probe, taken_apart

LENGTHS = [5, 1, 3]


def built() -> tuple[LearnedQuery, Tensor, Tensor]:
    pool = LearnedQuery(8, name="words.query")
    initialise(pool, 3)
    torch.manual_seed(0)
    return pool, torch.randn(3, 5, 8, requires_grad=True), torch.tensor(LENGTHS)


def plainly(pool: LearnedQuery, x_MD: Tensor) -> tuple[Tensor, Tensor]:
    """Equations 5 to 7 of Yang et al. 2016, of one row."""
    u_MD = torch.tanh(x_MD @ pool.keys.weight.T + pool.keys.bias)
    odds_M = torch.exp(u_MD @ pool.query_D)
    weights_M = odds_M / odds_M.sum()
    return weights_M @ x_MD, weights_M


def test_values_weights_and_gradients_are_those_of_the_paper() -> None:
    pool, x, lengths = built()
    parameters = [*pool.parameters(), x]
    with probe(pool) as seen:
        found = pool(x, lengths)
    rows = [plainly(pool, x[n, :length]) for n, length in enumerate(LENGTHS)]
    expected = torch.stack([vector for vector, _ in rows])
    torch.testing.assert_close(found, expected)
    for n, (_, weights) in enumerate(rows):
        shown = seen["words.query"].weights()[n, 0, 0]
        torch.testing.assert_close(shown[: LENGTHS[n]], weights)
        assert not shown[LENGTHS[n] :].any()
    weights = torch.randn_like(found)
    for a, b in zip(*(torch.autograd.grad((x * weights).sum(), parameters) for x in (found, expected))):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)


def test_padding_is_not_looked_at() -> None:
    pool, x, lengths = built()
    garbage = x.detach().clone()
    for row, length in zip(garbage, LENGTHS):
        row[length:] = 1e4
    torch.testing.assert_close(pool(garbage, lengths), pool(x, lengths))


@pytest.mark.parametrize("rows", [3, 6])
def test_a_gate_for_each_text_is_that_of_all_its_sentences(rows: int) -> None:
    pool, x, lengths = built()
    x, lengths = x.repeat(rows // 3, 1, 1), lengths.repeat(rows // 3)
    assert list(attentions(pool)) == ["words.query"]
    gate = torch.tensor([[1.0], [0.0], [0.5]])
    with probe(pool, {"words.query": gate}) as looking, taken_apart(looking, rows // 3):
        gated = pool(x, lengths)
    torch.testing.assert_close(gated, pool(x, lengths) * gate.repeat_interleave(rows // 3, 0))
