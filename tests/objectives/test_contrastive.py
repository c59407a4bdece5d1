"""Contrast is a cross-entropy over the batch, written out; who says the same is no counter-example."""

from __future__ import annotations

from math import exp, log

import pytest
import torch
from torch import Tensor, nn

from regard.core.errors import UserError
from regard.data.batching.pairs import ExchangeBatch
from regard.objectives.contrastive import ContrastiveConfig, ContrastiveLoss, mask_duplicates


class Given(nn.Module):
    """Vectors that are there already, in the place of towers."""

    def __init__(self, x_ND: Tensor, y_ND: Tensor) -> None:
        super().__init__()
        self.sides = {"contexts": x_ND, "replies": y_ND}

    def forward(self, ids_BL: Tensor, lengths_B: Tensor, side: str) -> Tensor:
        return self.sides[side]


def test_it_is_the_formula_both_ways_without_those_that_say_the_same() -> None:
    torch.manual_seed(0)
    x, y = (torch.nn.functional.normalize(torch.randn(4, 3), dim=-1) for _ in "xy")
    numbers, nothing = [7, 8, 7, 9], torch.zeros(4, 1, dtype=torch.long)
    batch = ExchangeBatch(nothing, nothing[:, 0], nothing, nothing[:, 0], torch.tensor(numbers), 4)
    loss = ContrastiveLoss(ContrastiveConfig(temperature=0.2))(Given(x, y).eval(), batch)  # type: ignore[arg-type]
    scores = [[exp(float(a @ b) / 0.2) for b in y] for a in x]
    rivals = {i: [j for j in range(4) if j == i or numbers[j] != numbers[i]] for i in range(4)}
    forth = -sum(log(scores[i][i] / sum(scores[i][j] for j in rivals[i])) for i in range(4))
    back = -sum(log(scores[i][i] / sum(scores[j][i] for j in rivals[i])) for i in range(4))
    assert loss.total.item() == pytest.approx((forth + back) / 2, rel=1e-5)
    assert loss.count == 4


def test_gradients_pass_by_what_is_left_out() -> None:
    scores = torch.zeros(3, 3, requires_grad=True)
    left = mask_duplicates(scores, torch.tensor([1, 1, 2]))
    torch.nn.functional.cross_entropy(left, torch.arange(3)).backward()
    assert scores.grad is not None
    assert scores.grad.isfinite().all()
    assert scores.grad[0, 1] == scores.grad[1, 0] == 0
    assert (scores.grad.diagonal() < 0).all()


def test_a_temperature_of_nothing_is_refused() -> None:
    with pytest.raises(UserError, match=r"objective.temperature=0.0"):
        ContrastiveConfig(temperature=0.0)
