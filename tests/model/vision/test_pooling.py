"""Sequence pooling against its formula, and starting values against the distribution they are drawn from."""

from __future__ import annotations

import torch
from torch import nn

from regard.model.attention import Attention
from regard.model.mixers.softmax import Softmax
from regard.model.probe import probe
from regard.model.vision.pooling import SequencePooling, initialise_truncated


def test_sequence_pooling_is_the_papers_formula() -> None:
    """x' = softmax(g(x))^T x, with a linear g of one output (Hassani et al. 2021, section 3.2); its bias changes nothing."""
    x = torch.randn(3, 5, 8, generator=torch.Generator().manual_seed(0))
    pool, layer = SequencePooling(8, name="pooling"), nn.Linear(8, 1)
    pool.query_D.data.copy_(layer.weight[0])
    weights = layer(x).softmax(1)
    with probe(pool) as seen:
        found = pool(x)
    torch.testing.assert_close(found, (weights.mT @ x)[:, 0])
    torch.testing.assert_close(seen["pooling"].weights()[:, 0, 0], weights[..., 0])


def test_matrices_are_cut_off_at_two_deviations() -> None:
    model = nn.Module()
    model.attention = Attention(64, 4, mixer=Softmax(), dropout=0.0, name="encoder.0.self")
    model.class_token = nn.Parameter(torch.zeros(4096))
    initialise_truncated(model, seed=1, deviation=0.5)
    for p in (model.attention.project.weight, model.attention.out.weight, model.class_token):
        assert p.abs().max() <= 1.0
        assert abs(p.std().item() / 0.5 - 0.8796) < 0.03  # of a normal distribution that is cut off at two deviations
    assert not model.attention.project.bias.any()
