"""The causal scan against the quadratic form of the same features: any length, chunks and groups, blind to the future."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend

from regard.model.mixers import causal_scan
from regard.model.visibility import causal, documents, padding
from tests.model.mixers.feature_attention import KINDS, compare, drawn, laid, mixer


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
