"""Our Linear is PyTorch's, forwards and backwards, whatever the shape."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.model.linear import Linear, product


@pytest.fixture(autouse=True)
def small_is_large(monkeypatch):
    monkeypatch.setattr("regard.model.linear.LARGE", 1)


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
