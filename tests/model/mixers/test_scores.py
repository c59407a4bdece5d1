"""The three scores of the lectures (S4) against torch's own kernels and against the formula, pair by pair."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.families.transformer import Transformer, TransformerConfig
from regard.model.mixers import SCORES, scores
from regard.model.mixers.scores import Additive, Bilinear, Dot
from regard.model.probe import probe
from regard.model.visibility import causal, full, padding, window

CPU = torch.device("cpu")


def mixers(width: int = 8):
    torch.manual_seed(3)
    found = {"dot": Dot(), "bilinear": Bilinear(width), "additive": Additive(width)}
    for name in ("bilinear", "additive"):
        for parameter in found[name].parameters():
            torch.nn.init.normal_(parameter)
    return found


def by_pairs(mixer, q_K, k_K) -> float:
    """One score, as it is written in the papers."""
    q, k = q_K.tolist(), k_K.tolist()
    if isinstance(mixer, Dot):
        return sum(a * b for a, b in zip(q, k))
    if isinstance(mixer, Bilinear):
        return float(F.bilinear(q_K[None], k_K[None], mixer.between_KK.detach()[None]))
    return sum(w * math.tanh(a + b) for w, a, b in zip(mixer.weight_K.tolist(), q, k))


@pytest.mark.parametrize("name", ["dot", "bilinear", "additive"])
def test_weights_are_the_papers_formula(name):
    mixer = mixers()[name]
    q, k = torch.randn(2, 1, 3, 8), torch.randn(2, 1, 5, 8)
    sees = padding(torch.tensor([5, 2])).over(3, 5, batch=2, device=CPU).rows(torch.arange(3)).expand(2, 1, 3, 5)
    found = mixer.weights(q, k, sees)
    for b, seen in enumerate([5, 2]):
        for i in range(3):
            terms = [math.exp(by_pairs(mixer, q[b, 0, i], k[b, 0, j])) for j in range(seen)]
            expected = torch.tensor([term / sum(terms) for term in terms] + [0.0] * (5 - seen))
            torch.testing.assert_close(found[b, 0, i].detach(), expected, atol=1e-5, rtol=1e-5)


VIEWS = {
    "full": lambda: full.over(7, 7, device=CPU),
    "causal": lambda: causal.over(7, 7, device=CPU),
    "padding": lambda: padding(torch.tensor([7, 3, 1])).over(7, 7, batch=3, device=CPU),
    "causal & window": lambda: (causal & window(2)).over(7, 7, device=CPU),
    "some see nobody": lambda: (window(1) & padding(torch.tensor([7, 3, 1]))).over(7, 7, batch=3, device=CPU),
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", ["dot", "bilinear", "additive"])
def test_the_fast_form_is_the_explicit_one_forwards_and_backwards(name, view):
    mixer, view = mixers()[name], VIEWS[view]()
    given_ = [torch.randn(3, 2, 7, 8, requires_grad=True) for _ in range(3)]
    learned = list(mixer.parameters()) if isinstance(mixer, torch.nn.Module) else []
    fast = mixer.mix(*given_, view)
    plain = mixer.weights(*given_[:2], view.rows(torch.arange(7)).expand(3, 2, 7, 7)) @ given_[2]
    torch.testing.assert_close(fast, plain, atol=1e-5, rtol=1e-4)
    weight = torch.randn_like(fast)
    for a, b in zip(*(torch.autograd.grad((each * weight).sum(), [*given_, *learned]) for each in (fast, plain))):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-4)


def test_dot_is_what_torch_computes_without_a_scale():
    q, k, v = (torch.randn(2, 3, 6, 8) for _ in range(3))
    expected = F.scaled_dot_product_attention(q, k, v, scale=1.0)
    torch.testing.assert_close(Dot().mix(q, k, v, full.over(6, 6, device=CPU)), expected, atol=1e-5, rtol=1e-5)


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 1000))
@settings(max_examples=15)
def test_an_additive_score_in_parts_is_the_same_score(length, memory, limit):
    mixer = mixers()["additive"].double()  # sums in another order: float32 would differ by more than a mistake might
    q, k = (torch.randn(2, 2, many, 8, dtype=torch.float64, requires_grad=True) for many in (length, memory))
    whole = mixer.scores(q, k)
    before, scores.AT_A_TIME = scores.AT_A_TIME, limit
    try:
        parts = mixer.scores(q, k)
    finally:
        scores.AT_A_TIME = before
    torch.testing.assert_close(parts, whole)
    for a, b in zip(*(torch.autograd.grad(each.square().sum(), (q, k, mixer.weight_K)) for each in (parts, whole))):
        torch.testing.assert_close(a, b, atol=1e-12, rtol=1e-12)


def test_additive_weights_may_be_dropped():
    torch.manual_seed(0)
    q, k, v = torch.zeros(1, 1, 1, 8), torch.zeros(1, 1, 4000, 8), torch.ones(1, 1, 4000, 8)
    found = mixers()["additive"].mix(q, k, v, full.over(1, 4000, device=CPU), 0.5).detach()
    assert found.unique().numel() == 1
    assert 0.9 < float(found[0, 0, 0, 0]) < 1.1
    assert float(found[0, 0, 0, 0]) != 1.0


@pytest.mark.parametrize("mixer", SCORES)
def test_a_transformer_may_use_any_of_them_and_a_probe_sees_it(mixer):
    config = TransformerConfig(width=16, heads=2, feedforward=8, layers=1, mixer=mixer, attention_dropout=0.1)
    model = Transformer(config, 20, 20).eval()
    source, lengths, target = torch.randint(4, 20, (2, 5)), torch.tensor([5, 3]), torch.randint(4, 20, (2, 4))
    with probe(model) as seen:
        model(source, lengths, target)
    weights = seen["decoder.0.cross"].weights()
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, 4))
    assert not weights[1, :, :, 3:].any()
    torch.testing.assert_close(seen["decoder.0.cross"].weights(heads=[1], rows=[2]), weights[:, 1:, 2:3])


def test_an_unknown_score_is_refused():
    with pytest.raises(UserError, match="'general' is not known; choose one of: softmax, dot, bilinear, additive"):
        TransformerConfig(mixer="general")
