"""Linear layers by other kernels, norms and feed-forward layers against their formulas and PyTorch's."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard.model.layers import ACTIVATIONS, NORMS, FeedForward, Linear, Norm, RMSNorm, product


@pytest.fixture(autouse=True)
def small_is_large(monkeypatch):
    monkeypatch.setattr("regard.model.layers.LARGE", 1)


@pytest.mark.parametrize("shape", [(5,), (1, 5), (3, 5), (2, 3, 5), (2, 1, 4, 5), (0, 5)])
@pytest.mark.parametrize("bias", [True, False])
def test_it_is_pytorchs(shape, bias):
    ours, theirs = Linear(5, 7, bias=bias), nn.Linear(5, 7, bias=bias)
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(shape)
    results = []
    for layer in (ours, theirs):
        given = x.clone().requires_grad_()
        layer(given).pow(2).sum().backward()
        results.append([layer(given), given.grad, *(p.grad for p in layer.parameters())])
    for a, b in zip(*results):
        torch.testing.assert_close(a, b)


def test_strided_inputs_and_frozen_weights():
    ours = Linear(4, 6)
    x = torch.randn(4, 3, 2).transpose(0, 1).transpose(1, 2).requires_grad_()
    ours.weight.requires_grad_(False)
    expected = torch.autograd.grad(nn.functional.linear(x, ours.weight, ours.bias).square().sum(), x)[0]
    torch.testing.assert_close(torch.autograd.grad(ours(x).square().sum(), x)[0], expected)


def test_outputs_may_be_changed_in_place():
    ours, x = Linear(4, 6), torch.randn(2, 3, 4)
    out = ours(x)
    out[:, -1] = 0.0
    out.sum().backward()
    assert ours.bias.grad.tolist() == [4.0] * 6  # the four rows that are left of six
    torch.testing.assert_close(ours.weight.grad, x[:, :-1].sum((0, 1)).expand(6, 4))


def test_under_autocast_it_is_half_precision():
    with torch.autocast("cpu", torch.bfloat16):
        assert Linear(4, 6)(torch.randn(2, 4)).dtype == torch.bfloat16


def test_products_of_parts_of_matrices():
    x, weight = torch.randn(3, 9)[:, 4:], torch.randn(7, 9)[:, 4:]
    torch.testing.assert_close(product(x, weight), x @ weight.T)
    torch.testing.assert_close(product(x.T, weight.T[:, :3]), x.T @ weight[:3])


def test_rms_is_its_formula() -> None:
    norm, x = RMSNorm(16, eps=1e-5), torch.randn(3, 5, 16) * 3
    torch.nn.init.normal_(norm.weight)
    expected = x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * norm.weight
    torch.testing.assert_close(norm(x), expected)
    torch.testing.assert_close(norm(x), torch.nn.functional.rms_norm(x, (16,), norm.weight, 1e-5))
    assert [name for name, _ in norm.named_parameters()] == ["weight"]


@pytest.mark.parametrize("kind", list(NORMS))
def test_half_precision_stays_what_it_is(kind: str) -> None:
    norm, x = NORMS[kind](64, eps=1e-5), torch.randn(4, 64) * 100
    found = norm.bfloat16()(x.bfloat16())
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), norm.float()(x), atol=0.05, rtol=0.02)


def test_layer_norm_is_pytorchs() -> None:
    x = torch.randn(2, 3, 8)
    assert torch.equal(Norm(8)(x), torch.nn.LayerNorm(8)(x))


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
