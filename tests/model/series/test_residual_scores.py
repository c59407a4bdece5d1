"""Residual attention against its definition: scores add up from layer to layer."""

from __future__ import annotations

import torch

from regard.model.series.residual_scores import ResidualScores
from regard.model.visibility import full


def test_scores_of_the_layers_below_are_a_bias():
    generator = torch.Generator().manual_seed(0)
    layers = [torch.randn(2, 2, 3, 5, 4, generator=generator) for _ in range(3)]  # queries and keys of each
    placement, total = ResidualScores().over(full.over(5, 5, batch=2, device=torch.device("cpu"))), torch.zeros(2, 3, 5, 5)
    for n, (q, k) in enumerate(layers):
        bias = placement.layer(n).bias(q, k)
        assert bias is not None
        torch.testing.assert_close(bias.dense(), total, msg=f"layer {n}")
        assert bias.shape == (2, 3, 5, 5)
        rows = bias.rows(torch.tensor([1, 4]), torch.tensor([2]))
        torch.testing.assert_close(rows, total[:, 2:3, [1, 4]])
        total = total + torch.einsum("bhik,bhjk->bhij", q, k) / 2
        torch.testing.assert_close(bias.scores, total)
