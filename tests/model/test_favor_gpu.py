"""What only a GPU runs of attention by features: products in half precision, compiled scans, recorded decoding steps."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from regard.decode.algorithm import CapturedGraphs
from regard.families.gpt import GPT, GPTConfig
from regard.families.transformer import Transformer, TransformerConfig
from regard.model.kernels.cuda_graph import CudaRecorder
from regard.model.mixers.feature_maps import PositiveFeatures
from regard.model.mixers.linear import Favor
from regard.model.visibility import View, Visibility, causal, documents, full, padding
from tests.decode.searches import greedy
from tests.families.harness import begin, stepped

pytestmark = pytest.mark.gpu
LENGTH = 700
CUDA = torch.device("cuda")


def mixer(width: int = 32, count: int = 64) -> Favor:
    features = PositiveFeatures(width, count, "test").to(CUDA)
    features.draw(1, 0)
    return Favor(features)


def drawn(dtype: torch.dtype, batch: int = 2, length: int = LENGTH) -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(batch, 2, length, 32, device=CUDA).to(dtype).requires_grad_() for _ in range(3)]


def patterns() -> dict[str, Visibility]:
    lengths, ids = torch.tensor([LENGTH, 333], device=CUDA), torch.arange(LENGTH, device=CUDA).div(150).long().expand(2, LENGTH)
    shown = {"full": full, "padding": padding(lengths), "causal": causal, "causal & padding": causal & padding(lengths)}
    return shown | {"documents": causal & documents(ids)}


def laid(pattern: Visibility, length: int = LENGTH, batch: int = 2) -> View:
    return pattern.over(length, length, batch=batch, device=CUDA, mask=False)


def difference(found: Tensor, expected: Tensor) -> float:
    return float((found.double() - expected).norm() / expected.norm())


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-5), (torch.bfloat16, 2e-2)])
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", ["full", "padding", "causal", "causal & padding", "documents"])
def test_it_is_the_explicit_form_forwards_and_backwards(name: str, compiled: bool, dtype: torch.dtype, tolerance: float) -> None:
    torch._dynamo.reset()
    of, inputs, view = mixer(), drawn(dtype), laid(patterns()[name])
    mix = torch.compile(of.mix, fullgraph=True) if compiled else of.mix
    found = mix(*inputs, view)
    exact = [part.detach().double().requires_grad_() for part in inputs]
    expected = of.weights(exact[0], exact[1], view.rows(torch.arange(LENGTH)).expand(2, 2, -1, -1)) @ exact[2]
    loss = torch.randn_like(found)
    mine = torch.autograd.grad((found * loss).sum(), inputs)
    theirs = torch.autograd.grad((expected * loss.double()).sum(), exact)
    for a, b in zip((found, *mine), (expected, *theirs)):
        assert a.isfinite().all()
        assert difference(a, b) < tolerance


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_changed_token_changes_no_bit_before_it(dtype: torch.dtype) -> None:
    of, (q, k, v), view = mixer(), [part.detach() for part in drawn(dtype, length=6000)], laid(causal, 6000)
    before = of.mix(q, k, v, view)
    for t in (1, 127, 128, 129, 4096, 5999):
        changed = [torch.cat([part[:, :, :t], 10 * torch.randn_like(part[:, :, t:])], 2) for part in (q, k, v)]
        assert torch.equal(of.mix(*changed, view)[:, :, :t], before[:, :, :t])


def test_a_long_scan_never_holds_a_matrix_for_every_place() -> None:
    """16,384 tokens, 2 heads: L x F x K in float32 alone would be 2.1 GB a head."""
    features = PositiveFeatures(64, 256, "test").to(CUDA)
    features.draw(1, 0)
    inputs = [torch.randn(1, 2, 16_384, 64, device=CUDA, dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
    of, view = Favor(features), laid(causal, 16_384, 1)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    torch.autograd.grad(of.mix(*inputs, view).sum(), inputs)
    assert torch.cuda.max_memory_allocated() - before < 1.5e9


@pytest.mark.parametrize("mixer_name", ["favor", "linear-relu", "conv"])
def test_recorded_decoding_is_the_full_forward(mixer_name: str) -> None:
    config = GPTConfig(width=64, heads=2, feedforward=96, layers=2, dropout=0.0, mixer=mixer_name, maximum_length=200)
    model = GPT(config, 50, seed=3).to(CUDA).eval()
    text = torch.randint(4, 50, (3, 90), device=CUDA)
    lengths = torch.tensor([30, 7, 1], device=CUDA)
    for fixed in (False, True):
        state = begin(model, text[:, :30], torch.full((3,), 30, device=CUDA), tokens=60, fixed=fixed)
        torch.testing.assert_close(stepped(state, text[:, 30:]), model(text)[:, 30:], atol=2e-4, rtol=1e-3)
    found = [
        greedy(model.start(text[:, :30], lengths), sos=text[:, 40], eos=1, limits=[40] * 3, sessions=sessions)
        for sessions in (None, CapturedGraphs(CudaRecorder(CUDA)))
    ]
    assert [one.ids for one in found[0]] == [one.ids for one in found[1]]


@pytest.mark.parametrize("mixer_name", ["favor", "conv"])
def test_a_translator_trains_compiled_and_decodes(mixer_name: str) -> None:
    config = TransformerConfig(width=64, heads=2, feedforward=96, layers=2, dropout=0.0, mixer=mixer_name)
    model = Transformer(config, 50, 50, seed=3).to(CUDA)
    source, lengths = torch.randint(4, 50, (3, 40), device=CUDA), torch.tensor([40, 9, 1], device=CUDA)
    target = torch.randint(4, 50, (3, 150), device=CUDA)
    torch._dynamo.reset()
    compiled = torch.compile(model, fullgraph=True)
    with torch.autocast("cuda", torch.bfloat16):
        compiled(source, lengths, target).square().mean().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    model.eval()
    found = stepped(begin(model, source, lengths, tokens=150, fixed=True), target)
    torch.testing.assert_close(found, model(source, lengths, target), atol=2e-4, rtol=1e-3)
