"""Packed weights give the same products, keep parameters and gradients, and int8 stays close."""

import copy

import pytest
import torch
from torch import nn

from regard.core.errors import UserError
from regard.families.transformer import Transformer, TransformerConfig
from regard.model.mixers.softmax import Softmax
from regard.model.packed_linear import PackedLinear, pack
from regard.model.sparse.dispatch import SHORT
from regard.model.visibility import causal, padding, window
from tests.decode.searches import beam_search


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
