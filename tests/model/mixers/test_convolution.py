"""The convolution against PyTorch's own, and as a layer of a model: what it sees, what it keeps, what a probe shows."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.families.bert import BERT, BERTConfig
from regard.families.gpt import GPT, GPTConfig
from regard.model.init import initialise
from regard.model.mixers.convolution import CYCLE, Convolution, reach
from regard.model.probe import probe
from regard.model.visibility import View, Visibility, causal, documents, full, padding, window
from tests.families.harness import begin, stepped

D, H = 12, 3


def layer(kernel_width: int = 3, dilation: int = 1) -> Convolution:
    made = Convolution(D, H, kernel_width=kernel_width, dilation=dilation, name="encoder.0.self")
    initialise(made, 4)
    return made


def laid(pattern: Visibility, length: int, batch: int) -> View:
    return pattern.over(length, length, batch=batch, device=torch.device("cpu"))


def by_torch(ours: Convolution, x_BLD: Tensor, is_causal: bool) -> Tensor:
    """Every channel alone, with the kernel of its head."""
    value, gate = ours.project(x_BLD).chunk(2, -1)
    kernel = ours.kernel_HW.softmax(-1).repeat_interleave(D // H, 0)[:, None]
    span = (kernel.shape[-1] - 1) * ours.dilation
    padded = F.pad((value * gate.sigmoid()).mT, (span, 0) if is_causal else (span // 2, span // 2))
    return ours.out(F.conv1d(padded, kernel, dilation=ours.dilation, groups=D).mT)


@given(st.integers(1, 20), st.sampled_from([1, 3, 5, 7]), st.integers(1, 4), st.booleans())
@settings(max_examples=40)
def test_it_is_torchs_convolution_forwards_and_backwards(length: int, width: int, dilation: int, is_causal: bool) -> None:
    ours, x = layer(width, dilation), torch.randn(2, length, D, requires_grad=True)
    found, expected = ours(x, laid(causal if is_causal else full, length, 2)), by_torch(ours, x, is_causal)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    inputs = [x, *ours.parameters()]
    for a, b in zip(torch.autograd.grad(found.square().sum(), inputs), torch.autograd.grad(expected.square().sum(), inputs)):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-4)


def test_nothing_of_the_future_and_nothing_of_the_padding() -> None:
    ours, x = layer(5, 2), torch.randn(2, 15, D)
    before = ours(x, laid(causal, 15, 2))
    changed = x.clone()
    changed[:, 7:] += 1
    after = ours(changed, laid(causal, 15, 2))
    assert torch.equal(after[:, :7], before[:, :7])
    assert not torch.equal(after[:, 7], before[:, 7])
    view = laid(padding(torch.tensor([15, 7])), 15, 2)
    torch.testing.assert_close(ours(x, view)[1, :7], ours(x[1:, :7], laid(full, 7, 1))[0])
    assert torch.equal(ours(changed, view)[1, :7], ours(x, view)[1, :7])


def test_documents_of_a_row_do_not_mix() -> None:
    ours, x = layer(5), torch.randn(1, 9, D)
    for pattern in (full, causal):
        together = ours(x, laid(pattern & documents(torch.tensor([[0, 0, 0, 0, 1, 1, 1, 1, 1]])), 9, 1))
        apart = [ours(part, laid(pattern, part.shape[1], 1)) for part in x.split([4, 5], 1)]
        torch.testing.assert_close(together, torch.cat(apart, 1))


def test_other_patterns_are_refused() -> None:
    with pytest.raises(ValueError, match="a convolution sees everything"):
        layer()(torch.randn(1, 4, D), laid(window(1), 4, 1))


def test_a_probe_shows_weights_that_no_text_changes() -> None:
    model = BERT(
        BERTConfig(width=D, heads=H, feedforward=20, layers=2, mixer="conv", kernel_width=3, maximum_length=12), 20
    ).eval()
    shown = []
    for seed in (0, 1):
        ids = torch.randint(4, 20, (2, 7), generator=torch.Generator().manual_seed(seed))
        with probe(model) as seen:
            model(ids, torch.tensor([7, 4]))
        shown.append(seen["encoder.1.self"].weights())
    assert torch.equal(*shown)
    look, weights = seen["encoder.1.self"], shown[1]
    assert weights.shape == (2, H, 7, 7)
    torch.testing.assert_close(weights[:, :, 1:3].sum(-1), torch.ones(2, H, 2))
    assert (weights[1, :, :, 4:] == 0).all()
    assert (weights[0, :, 0, 2:] == 0).all()
    torch.testing.assert_close(look.weights(heads=[2], rows=[5, 0]), weights[:, 2:][:, :, [5, 0]])
    kernel = model.encoder.blocks[1].self_attention.kernel_HW.softmax(-1)
    torch.testing.assert_close(weights[0, :, 3, 2:5], kernel)


def test_its_heads_can_be_gated() -> None:
    model = GPT(GPTConfig(width=D, heads=H, feedforward=20, layers=1, mixer="conv", maximum_length=20), 20).eval()
    ids = torch.randint(4, 20, (1, 9))
    plain = model(ids)
    with probe(model, {"decoder.0.self": torch.ones(H)}):
        assert torch.equal(model(ids), plain)
    with probe(model, {"decoder.0.self": torch.tensor([1.0, 0.0, 1.0])}):
        gated = model(ids)
        assert not torch.allclose(gated, plain)
        torch.testing.assert_close(stepped(begin(model, ids[:, :4], torch.tensor([4]), tokens=5), ids[:, 4:]), gated[:, 4:])


def test_decoding_keeps_the_last_few_values() -> None:
    config = GPTConfig(width=D, heads=H, feedforward=20, layers=3, mixer="conv", kernel_width=3, dilation=2, maximum_length=80)
    model = GPT(config, 20).eval()
    text = torch.randint(4, 20, (2, 60))
    for prompt in (1, 2, 30):
        state = begin(model, text[:, :prompt], torch.full((2,), prompt), tokens=60 - prompt)
        assert [cache.values_SHWTK.shape[3] for cache in state.caches] == [2, 4, 8]
        torch.testing.assert_close(stepped(state, text[:, prompt:]), model(text)[:, prompt:], atol=2e-5, rtol=1e-4)


def test_layers_reach_further_and_then_anew() -> None:
    config = GPTConfig(mixer="conv", dilation=2)
    assert [config.dilation_of(n) for n in range(CYCLE + 2)] == [1, 2, 4, 8, 16, 1, 2]
    assert [GPTConfig(mixer="conv").dilation_of(n) for n in range(3)] == [1, 1, 1]
    assert reach(7, 2, True) == (12, 0)
    assert reach(7, 2, False) == (6, 6)
