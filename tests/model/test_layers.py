"""Linear layers by other kernels, norms and feed-forward layers against their formulas and PyTorch's.

Packed weights give the same products, keep parameters and gradients, and int8 stays close.
"""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard.core.errors import UserError
from regard.families.transformer import Transformer, TransformerConfig
from regard.model.layers import ACTIVATIONS, NORMS, FeedForward, Linear, Norm, PackedLinear, RMSNorm, pack, product
from regard.model.mixers.softmax import Softmax
from regard.model.sparse.dispatch import SHORT
from regard.model.visibility import causal, padding, window
from tests.decode.searches import beam_search


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


@pytest.fixture
def model():
    return Transformer(TransformerConfig(width=64, heads=4, feedforward=96, layers=2, dropout=0.0), 300, 300, seed=2).eval()


@pytest.fixture
def inputs():
    g = torch.Generator().manual_seed(0)
    return torch.randint(4, 300, (3, 8), generator=g), torch.tensor([8, 5, 2]), torch.randint(4, 300, (3, 6), generator=g)


def packed(model, weights="float32"):
    twin = copy.deepcopy(model)
    pack(twin, weights)
    return twin


@pytest.mark.parametrize("rows", [1, 3, 64])
@pytest.mark.parametrize("bias", [True, False])
def test_a_packed_product_is_the_product(rows, bias):
    layer = nn.Linear(40, 72, bias=bias)
    holder = nn.Sequential(layer)
    x = torch.randn(rows, 5, 40)
    expected = layer(x)
    pack(holder)
    assert isinstance(holder[0], PackedLinear)
    with torch.no_grad():
        torch.testing.assert_close(holder(x), expected.detach(), atol=1e-5, rtol=1e-5)


def test_the_whole_model_answers_the_same(model, inputs):
    twin = packed(model)
    with torch.no_grad():
        torch.testing.assert_close(twin(*inputs), model(*inputs), atol=2e-5, rtol=1e-5)
    assert twin.state_dict().keys() == model.state_dict().keys()
    assert not any(type(module) is nn.Linear for module in twin.modules())


def test_gradients_still_flow(model, inputs):
    twin = packed(model)
    model(*inputs).square().sum().backward()
    twin(*inputs).square().sum().backward()
    for (name, ours), theirs in zip(twin.named_parameters(), model.parameters()):
        torch.testing.assert_close(ours.grad, theirs.grad, atol=1e-4, rtol=1e-4, msg=name)


@pytest.mark.parametrize(("weights", "most"), [("bfloat16", 0.02), ("int8", 0.05)])
def test_fewer_bits_are_close_and_not_equal(model, inputs, weights, most):
    if weights == "bfloat16" and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        pytest.skip("this CPU has no instructions for bf16")
    with torch.no_grad():
        exact, rounded = model(*inputs), packed(model, weights)(*inputs)
    assert rounded.dtype == torch.float32
    error = ((rounded - exact).norm() / exact.norm()).item()
    assert 1e-5 < error < most


def test_a_cpu_without_bf16_is_told_so(model, monkeypatch):
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: False)
    with pytest.raises(UserError, match="float32"):
        pack(model, "bfloat16")


def test_a_search_finds_the_same(model, inputs):
    source, lengths, _ = inputs
    found = [
        beam_search(m.start(source, lengths), sos=1, eos=2, beam=3, alpha=0.6, limits=[12, 12, 12], banned=(0, 1))
        for m in (model, packed(model))
    ]
    assert [h[0].ids for h in found[0]] == [h[0].ids for h in found[1]]


@pytest.mark.parametrize("length", [1, 4, 20])
def test_short_memories_take_products_that_equal_the_reference(length):
    """Without a gradient a CPU multiplies; with one the fused kernel runs. All must agree, also where a query sees nobody."""
    for pattern in (
        padding(torch.tensor([20, 7, 1])),
        causal & padding(torch.tensor([20, 7, 1])),
        window(1) & padding(torch.tensor([20, 7, 1])),
    ):
        view = pattern.over(length, 20, batch=3, offset=20 - length, device=torch.device("cpu"))
        q, k, v = torch.randn(3, 2, length, 8), torch.randn(3, 2, 20, 8), torch.randn(3, 2, 20, 8)
        fused = Softmax().mix(q, k, v, view)
        reference = Softmax().weights(q, k, view.rows(torch.arange(length)).expand(3, 2, length, 20)) @ v
        with torch.no_grad():
            multiplied = Softmax().mix(q, k, v, view)
        torch.testing.assert_close(fused, reference, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(multiplied, reference, atol=1e-5, rtol=1e-5)
    assert SHORT >= 20


def test_dropout_is_never_left_out():
    """Monte-Carlo dropout: asked for without a gradient, it must still happen."""
    view = padding(torch.tensor([20, 7, 1])).over(4, 20, batch=3, device=torch.device("cpu"))
    q, k, v = torch.randn(3, 2, 4, 8), torch.randn(3, 2, 20, 8), torch.randn(3, 2, 20, 8)
    with torch.no_grad():
        assert not torch.allclose(Softmax().mix(q, k, v, view, dropout=0.5), Softmax().mix(q, k, v, view))
