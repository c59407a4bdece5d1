"""Attention by features against the quadratic form of the same features, written here from the papers' formulas in float64."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.families.gpt import GPT, GPTConfig
from regard.families.transformer import Transformer, TransformerConfig
from regard.model.mixers import linear
from regard.model.probe import probe
from regard.model.visibility import Visibility, causal, documents, full, padding, window
from tests.families.harness import begin, stepped
from tests.model.mixers.feature_attention import KINDS, compare, drawn, laid, mixer, quadratic


@given(st.sampled_from(KINDS), st.integers(1, 12), st.integers(1, 12), st.integers(0, 99))
@settings(max_examples=30)
def test_everything_seen_at_once_also_across(kind: str, length: int, memory: int, seed: int) -> None:
    (q, _, _), (_, k, v) = drawn(2, 2, length, 8, seed=seed), drawn(2, 2, memory, 8, seed=seed + 100)
    lengths = torch.randint(0, memory + 1, (2,), generator=torch.Generator().manual_seed(seed))
    for pattern in (full, padding(lengths)):
        compare(mixer(kind), q, k, v, laid(pattern, length, memory, 2))


def test_with_many_features_it_comes_to_softmax() -> None:
    q, k, v = (part.detach() / 2 for part in drawn(2, 2, 40, 8))
    for pattern, is_causal in ((causal, True), (full, False)):
        expected = F.scaled_dot_product_attention(q, k, v, is_causal=is_causal)
        off = [
            float((mixer("favor", 8, count).mix(q, k, v, laid(pattern, 40, 40, 2)) - expected).norm() / expected.norm())
            for count in (16, 256, 8192)
        ]
        assert off[2] < 0.05
        assert off[0] > off[1] > off[2]


def test_padding_changes_no_bit() -> None:
    of, lengths = mixer("favor"), torch.tensor([9, 4, 0])
    q, k, v = (part.detach() for part in drawn(3, 2, 9, 8))
    found = of.mix(q, k, v, laid(padding(lengths), 9, 9, 3))
    for part in (k, v):
        for row, length in enumerate(lengths):
            part[row, :, length:] = 40.0
    torch.testing.assert_close(of.mix(q, k, v, laid(padding(lengths), 9, 9, 3)), found, atol=0, rtol=0)
    assert (found[2] == 0).all()
    alone = of.mix(q[1:2], k[1:2, :, :4], v[1:2, :, :4], laid(full, 9, 4, 1))
    torch.testing.assert_close(found[1:2], alone)


@pytest.mark.parametrize("size", [20.0, 300.0, 1e4])
def test_vectors_of_any_length_give_numbers_forwards_and_backwards(size: float) -> None:
    inputs = drawn(1, 2, 300, 8, size=size)
    for pattern in (causal, full):
        found = mixer("favor").mix(*inputs, laid(pattern, 300, 300, 1))
        assert found.isfinite().all()
        assert all(part.isfinite().all() for part in torch.autograd.grad(found.square().sum(), inputs))


@pytest.mark.parametrize("on_a_gpu", [False, True])
@pytest.mark.parametrize("pattern", [causal, full], ids=str)
def test_half_precision(pattern: Visibility, on_a_gpu: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a CPU does it, whose sums and products are float32, and as a GPU does, whose products are not."""
    if on_a_gpu:
        monkeypatch.setattr(linear, "_products", lambda x: x.dtype)
    of, inputs = mixer("favor", 16, 32), [part.detach().bfloat16().requires_grad_() for part in drawn(1, 2, 300, 16)]
    view = laid(pattern, 300, 300, 1)
    found = of.mix(*inputs, view)
    assert found.dtype == torch.bfloat16
    exact = [part.detach().double().requires_grad_() for part in inputs]
    expected = quadratic(of, *exact, view.rows(torch.arange(300)))
    loss = torch.randn(found.shape, generator=torch.Generator().manual_seed(3))
    mine = torch.autograd.grad((found * loss).sum(), inputs)
    theirs = torch.autograd.grad((expected * loss.double()).sum(), exact)
    for a, b in zip((found, *mine), (expected, *theirs)):
        assert (a.double() - b).norm() / b.norm() < 2e-2


def test_autocast_rounds_no_exponent() -> None:
    of, (q, k, v), view = mixer("favor"), drawn(1, 2, 30, 8), laid(causal, 30, 30, 1)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(of.mix(q, k, v, view), of.mix(q, k, v, view).float(), atol=0, rtol=0)
        inside = of.mix(q, k, v, view)
    assert torch.equal(inside, of.mix(q, k, v, view))


def test_other_patterns_and_documents_without_an_order_are_refused() -> None:
    q, k, v = drawn(1, 2, 6, 8)
    with pytest.raises(ValueError, match=r"cannot see \(causal & window\(2\)\)"):
        mixer("favor").mix(q, k, v, (causal & window(2)).over(6, 6, device=torch.device("cpu")))
    with pytest.raises(ValueError, match="where it is causal"):
        mixer("favor").mix(q, k, v, laid(documents(torch.zeros(1, 6)), 6, 6, 1))


@pytest.mark.parametrize("kind", KINDS)
def test_weights_are_what_the_sums_amount_to(kind: str) -> None:
    of, (q, k, v) = mixer(kind), drawn(2, 2, 9, 8)
    for pattern in (causal, padding(torch.tensor([9, 0]))):
        view = laid(pattern, 9, 9, 2)
        weights = of.weights(q, k, view.rows(torch.arange(9)))
        torch.testing.assert_close(weights @ v, of.mix(q, k, v, view), atol=1e-6, rtol=1e-5)
        torch.testing.assert_close(weights.sum(-1), weights.sum(-1).round())


def test_a_probe_shows_a_models_weights_and_gates_its_heads() -> None:
    model = Transformer(TransformerConfig(width=16, heads=2, feedforward=20, layers=1, mixer="favor", features=12), 20, 20).eval()
    inputs = torch.randint(4, 20, (2, 7)), torch.tensor([7, 3]), torch.randint(4, 20, (2, 5))
    with probe(model) as seen:
        model(*inputs)
    assert list(seen) == ["encoder.0.self", "decoder.0.self", "decoder.0.cross"]
    weights = seen["decoder.0.cross"].weights(heads=[1], rows=[0, 4])
    assert weights.shape == (2, 1, 2, 7)
    assert (weights[1, :, :, 3:] == 0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 1, 2))
    gates = {"decoder.0.self": torch.zeros(2)}
    with probe(model, gates):
        gated = stepped(begin(model, *inputs[:2], tokens=5), inputs[2])
        torch.testing.assert_close(gated, model(*inputs), atol=1e-5, rtol=1e-4)


def test_decoding_keeps_as_much_of_a_long_text_as_of_a_short_one() -> None:
    config = GPTConfig(width=16, heads=2, feedforward=20, layers=2, mixer="favor", features=12, position="sinusoidal")
    model = GPT(config, 20).eval()
    text = torch.randint(4, 20, (1, 300))
    state = begin(model, text[:, :200], torch.tensor([200]), tokens=100)
    kept = [[part.numel() for part in cache.buffers] for cache in state.caches]
    assert kept == [[2 * 12 * 8, 2 * 12, 2]] * 2
    torch.testing.assert_close(stepped(state, text[:, 200:]), model(text)[:, 200:], atol=5e-5, rtol=1e-4)
    assert [[part.numel() for part in cache.buffers] for cache in state.caches] == kept
    assert state.ancestry.ancestors_SWN.numel() == 0
