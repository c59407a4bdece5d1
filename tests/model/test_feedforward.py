"""The feed-forward layer: plain and gated, with each activation, with and without biases."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from regard.model.feedforward import ACTIVATIONS, FeedForward


@pytest.mark.parametrize("activation", list(ACTIVATIONS))
def test_both_kinds_are_their_formulas(activation: str) -> None:
    x, act = torch.randn(2, 5, 8), ACTIVATIONS[activation]
    plain, gated = FeedForward(8, 12, activation), FeedForward(8, 12, activation, gated=True, bias=False)
    torch.testing.assert_close(plain(x), F.linear(act(plain.expand(x)), plain.contract.weight, plain.contract.bias))
    assert gated.gate is not None
    expected = (act(x @ gated.gate.weight.T) * (x @ gated.expand.weight.T)) @ gated.contract.weight.T
    torch.testing.assert_close(gated(x), expected)
    assert {name for name, _ in gated.named_parameters()} == {"expand.weight", "gate.weight", "contract.weight"}


def test_silu_and_the_tanh_approximation() -> None:
    x = torch.linspace(-3, 3, 50)
    torch.testing.assert_close(ACTIVATIONS["silu"](x), x * x.sigmoid())
    assert 0 < (ACTIVATIONS["gelu_tanh"](x) - ACTIVATIONS["gelu"](x)).abs().max() < 1e-3
