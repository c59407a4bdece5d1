"""Attention by features against the quadratic form of the same features, written here from the papers' formulas in float64."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend

from regard.families.gpt import GPT, GPTConfig
from regard.families.transformer import Transformer, TransformerConfig
from regard.model.mixers import causal_scan, linear
from regard.model.mixers.feature_maps import PositiveFeatures, ReluFeatures
from regard.model.mixers.linear import Favor
from regard.model.probe import probe
from regard.model.visibility import View, Visibility, causal, documents, full, padding, window
from tests.families.harness import begin, stepped

KINDS = ("favor", "relu")


def mixer(kind: str, width: int = 8, count: int = 12) -> Favor:
    if kind == "relu":
        return Favor(ReluFeatures())
    features = PositiveFeatures(width, count, "test")
    features.draw(1, 0)
    return Favor(features)


def drawn(*shape: int, seed: int = 0, size: float = 1.0) -> list[Tensor]:
    chance = torch.Generator().manual_seed(seed)
    return [(size * torch.randn(shape, generator=chance)).requires_grad_() for _ in range(3)]


def laid(pattern: Visibility, length: int, memory: int, batch: int) -> View:
    return pattern.over(length, memory, batch=batch, device=torch.device("cpu"), mask=False)


def quadratic(of: Favor, q: Tensor, k: Tensor, v: Tensor, sees: Tensor) -> Tensor:
    """phi(q) . phi(k) of all pairs, with no thought of overflow; who sees nobody gets zeros."""
    q, k, v = q.double(), k.double(), v.double()
    if isinstance(of.features, ReluFeatures):
        one, two = q.relu() + 1e-3, k.relu() + 1e-3
    else:
        w, rate = of.features.directions_FK.double(), q.shape[-1] ** -0.25
        one, two = (torch.exp((rate * x) @ w.T - (rate * x).square().sum(-1, keepdim=True) / 2) for x in (q, k))
    weights = (one @ two.mT) * sees
    return (weights / weights.sum(-1, keepdim=True).clamp_min(1e-300)) @ v


def compare(of: Favor, q: Tensor, k: Tensor, v: Tensor, view: View, tolerance: float = 1e-5) -> None:
    """Values, and gradients; those of relu are divided by what may be as little as a thousandth."""
    found = of.mix(q, k, v, view)
    sees = view.rows(torch.arange(view.length)).expand(*q.shape[:3], k.shape[2])
    inputs = [part.detach().double().requires_grad_() for part in (q, k, v)]
    expected = quadratic(of, *inputs, sees)
    assert found.isfinite().all()
    torch.testing.assert_close(found.double(), expected, atol=tolerance, rtol=tolerance)
    loss = torch.randn(found.shape, generator=torch.Generator().manual_seed(3))
    gradients = torch.autograd.grad((found * loss).sum(), (q, k, v))
    for mine, theirs in zip(gradients, torch.autograd.grad((expected * loss.double()).sum(), inputs)):
        scale = max(1.0, float(theirs.abs().max()))
        few = tolerance * (10 if isinstance(of.features, ReluFeatures) else 1)
        torch.testing.assert_close(mine.double() / scale, theirs / scale, atol=few, rtol=few)


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that short sequences have many chunks, in groups, in several segments."""
    monkeypatch.setattr(causal_scan, "CHUNK", 4)
    monkeypatch.setattr(linear, "CHUNK", 4)
    monkeypatch.setattr(causal_scan, "GROUP", 2)
    monkeypatch.setattr(linear, "AT_A_TIME", 2 * 2 * 12 * 4 * 20)


@pytest.mark.usefixtures("small_chunks")
@given(st.sampled_from(KINDS), st.integers(1, 70), st.sampled_from(["causal", "padded", "documents"]), st.integers(0, 99))
@settings(max_examples=60)
def test_scan_equals_the_quadratic_form_at_every_length(kind: str, length: int, where: str, seed: int) -> None:
    chance = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, length + 1, (2,), generator=chance)
    starts = (torch.rand(2, length, generator=chance) < 0.15).long()
    patterns = {"causal": causal, "padded": causal & padding(lengths), "documents": causal & documents(starts.cumsum(1))}
    compare(mixer(kind), *drawn(2, 2, length, 8, seed=seed), laid(patterns[where], length, length, 2))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("chunk", "length"), [(128, 127), (128, 128), (128, 129), (128, 700), (32, 1100)])
def test_scan_in_its_real_chunks_and_groups(kind: str, chunk: int, length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(causal_scan, "CHUNK", chunk)
    compare(mixer(kind, 16, 24), *drawn(1, 2, length, 16), laid(causal, length, length, 1))


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


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("kind", KINDS)
def test_a_changed_token_changes_no_bit_before_it(kind: str) -> None:
    q, k, v = (part.detach() for part in drawn(2, 2, 50, 8))
    of, view = mixer(kind), laid(causal, 50, 50, 2)
    before = of.mix(q, k, v, view)
    for t in (1, 3, 4, 7, 8, 19, 20, 21, 40, 49):
        for size in (1.0, 30.0):
            changed = [part.clone() for part in (q, k, v)]
            for part in changed:
                part[:, :, t:] = size * torch.randn_like(part[:, :, t:])
            after = of.mix(*changed, view)
            assert torch.equal(after[:, :, :t], before[:, :, :t])
            assert not torch.equal(after[:, :, t], before[:, :, t])


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


@pytest.mark.slow
def test_long_scans_compile_as_one_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """With groups of chunks; aot_eager traces forwards and backwards without C++."""
    monkeypatch.setattr(causal_scan, "CHUNK", 32)
    torch._dynamo.reset()
    of, inputs, view = mixer("favor"), drawn(1, 1, 1100, 8), laid(causal, 1100, 1100, 1)
    compiled = torch.compile(lambda q, k, v: of.mix(q, k, v, view), fullgraph=True, backend="aot_eager")
    found, expected = compiled(*inputs), of.mix(*inputs, view)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
    for a, b in zip(torch.autograd.grad(found.sum(), inputs), torch.autograd.grad(expected.sum(), inputs)):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-3)


@pytest.mark.slow
def test_one_graph_serves_many_lengths() -> None:
    """One for the first length, one for all within a chunk, one for all of several chunks."""
    torch._dynamo.reset()
    of, counter = mixer("favor"), CompileCounterWithBackend("eager")

    @torch.compile(fullgraph=True, backend=counter)
    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return of.mix(q, k, v, laid(causal, q.shape[2], q.shape[2], 1))

    for length in (20, 30, 40, 50, 200, 300, 400, 1000):
        inputs = [part.detach() for part in drawn(1, 1, length, 8)]
        torch.testing.assert_close(run(*inputs), of.mix(*inputs, laid(causal, length, length, 1)), atol=1e-5, rtol=1e-4)
    assert counter.frame_count <= 3
