"""Attention over known scores against the kernels that compute them, with the rest as a bias."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from regard.model.mixers.softmax import Softmax
from regard.model.series.residual_scores import ResidualScores
from regard.model.visibility import causal, full, padding, window


@pytest.mark.parametrize("pattern", [full, causal, window(1) & padding(torch.tensor([5, 2]))], ids=str)
def test_attention_over_known_scores_is_attention_with_the_bias(pattern):
    """Forwards and backwards, where some queries see no key too."""
    generator = torch.Generator().manual_seed(1)
    inputs = [torch.randn(2, 3, 5, 4, generator=generator, requires_grad=True) for _ in range(5)]
    view = pattern.over(5, 5, batch=2, device=torch.device("cpu"))
    found = []
    for known in (True, False):
        placement = ResidualScores().over(view)
        placement.bias(*inputs[:2])
        bias = placement.bias(*inputs[2:4])
        context = Softmax().mix(*inputs[2:], view, 0.0, bias if known else replace(bias, scores=None))
        found.append([context, *torch.autograd.grad(context.square().sum(), inputs)])
    for a, b in zip(*found):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)
