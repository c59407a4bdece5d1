"""ProbSparse attention against the formula of its paper, query by query, and against softmax attention where all are chosen."""

from __future__ import annotations

from math import ceil, log
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.core.errors import UserError
from regard.families import build_model
from regard.families.base import Heads
from regard.families.bert import BERTConfig
from regard.families.forecaster import ForecasterConfig
from regard.families.gpt import GPTConfig
from regard.model.mixers.feature_maps import renew_features
from regard.model.probe import probe
from regard.model.sparse.probsparse import SHARED, ProbSparse, sampled_keys
from regard.model.visibility import View, Visibility, causal, documents, full, padding, window
from regard.runs.recipe import load_recipe

CPU = torch.device("cpu")
SMALL: dict[str, Any] = dict(
    lookback=48, horizon=8, width=16, heads=2, feedforward=16, layers=1, mixer="probsparse", sampling_factor=1
)


def mixer(factor: int = 1, seed: int = 3, number: int = 0) -> ProbSparse:
    found = ProbSparse(factor, "encoder.0.self")
    found.draw(seed, number)
    return found


def drawn(batch: int, length: int, seed: int = 0, width: int = 8) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(batch, 2, length, width, generator=generator, dtype=torch.float64).requires_grad_() for _ in range(3)]


def laid(pattern: Visibility, length: int, batch: int) -> View:
    return pattern.over(length, length, batch=batch, device=CPU, mask=False)


def of_the_paper(of: ProbSparse, q: Tensor, k: Tensor, v: Tensor, lengths: list[int], is_causal: bool) -> Tensor:
    """Equation 4 and algorithm 1 for one query after the other; the sampled keys are those that the mixer draws."""
    batch, heads, length, width = q.shape
    fixed_q, fixed_k, rows = q.detach(), k.detach(), []
    for b in range(batch):
        words = lengths[b]
        chosen_of = min(of.factor * ceil(log(1 + words)), words)
        for h in range(heads):
            measures = []
            for i in range(words):
                group, seen = i // SHARED, i + 1 if is_causal else words
                reach = min((group + 1) * SHARED, length, words) if is_causal else words
                sample = sampled_keys(of.sample_key, torch.full((1, group + 1), reach), chosen_of)[0, group].tolist()
                scores = [float(fixed_q[b, h, i] @ fixed_k[b, h, j]) / width**0.5 for j in range(seen)]
                highest = max((scores[j] for j in sample if j < seen), default=-float("inf"))
                measures.append(highest - sum(scores) / seen)
            best = sorted(range(words), key=lambda i: -measures[i])[:chosen_of]
            for i in range(length):
                seen = min(i + 1, words) if is_causal else words
                keys, values = k[b, h, :seen], v[b, h, :seen]
                rows.append((q[b, h, i] @ keys.T / width**0.5).softmax(-1) @ values if i in best else values.mean(0))
    return torch.stack(rows).view(batch, heads, length, width)


@given(st.integers(3, 80), st.integers(1, 3), st.booleans(), st.booleans(), st.integers(0, 99))
@settings(max_examples=25)
def test_it_is_the_formula_forwards_and_backwards(length: int, factor: int, is_causal: bool, padded: bool, seed: int) -> None:
    of, inputs, lengths = mixer(factor, seed), drawn(2, length, seed), [length, max(1, length // 2)] if padded else [length] * 2
    pattern = causal if is_causal else full
    view = laid(pattern & padding(torch.tensor(lengths)) if padded else pattern, length, 2)
    found, expected = of.mix(*inputs, view), of_the_paper(of, *inputs, lengths, is_causal)
    given_rows = torch.arange(length) < torch.tensor(lengths)[:, None, None]
    found, expected = found * given_rows[..., None], expected * given_rows[..., None]
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-6)
    weight = torch.randn(found.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    for a, b in zip(torch.autograd.grad((found * weight).sum(), inputs), torch.autograd.grad((expected * weight).sum(), inputs)):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("pattern", [full, causal], ids=str)
@pytest.mark.parametrize("factor", [12, 100])
def test_where_every_query_is_chosen_it_is_softmax_attention(pattern: Visibility, factor: int) -> None:
    q, k, v = drawn(2, 40)
    of = mixer(factor)
    assert of.count(40) == 40
    expected = F.scaled_dot_product_attention(q, k, v, is_causal=pattern == causal)
    torch.testing.assert_close(of.mix(q, k, v, laid(pattern, 40, 2)), expected)
    lengths = torch.tensor([40, 25])
    found = of.mix(q, k, v, laid(pattern & padding(lengths), 40, 2))
    alone = F.scaled_dot_product_attention(*(part[1:, :, :25] for part in (q, k, v)), is_causal=pattern == causal)
    torch.testing.assert_close(found[1:, :, :25], alone)


@pytest.mark.parametrize("lengths", [None, [70, 31, 0]])
@pytest.mark.parametrize("pattern", [full, causal], ids=str)
def test_the_weights_are_those_of_the_fast_form(pattern: Visibility, lengths: list[int] | None) -> None:
    of, (q, k, v) = mixer(), drawn(3, 70)
    view = laid(pattern if lengths is None else pattern & padding(torch.tensor(lengths)), 70, 3)
    weights = of.weights(q, k, view.rows(torch.arange(70)).expand(3, -1, 70, 70))
    torch.testing.assert_close(weights @ v, of.mix(q, k, v, view), atol=1e-6, rtol=1e-6)
    same = (weights.amax(-1) - weights.sum(-1) / (weights > 0).sum(-1).clamp(min=1)).abs() < 1e-9
    assert (same[0].sum(-1) >= 70 - 5).all()


def test_garbage_in_padding_changes_nothing() -> None:
    of, lengths = mixer(), torch.tensor([50, 20])
    q, k, v = (part.detach() for part in drawn(2, 50))
    before = of.mix(q, k, v, laid(padding(lengths), 50, 2))
    for part in (q, k, v):
        part[1, :, 20:] = 40.0
    assert torch.equal(of.mix(q, k, v, laid(padding(lengths), 50, 2))[1, :, :20], before[1, :, :20])
    alone = of.mix(*(part[1:, :, :20] for part in (q, k, v)), laid(full, 20, 1))
    torch.testing.assert_close(alone, before[1:, :, :20])


def test_a_query_that_stands_out_is_found() -> None:
    """Of 300 queries that are all the same but five, which ask for single keys, these five get attention."""
    torch.manual_seed(0)
    q, k = 0.01 * torch.randn(1, 1, 300, 16), torch.randn(1, 1, 300, 16)
    asking = [7, 100, 101, 222, 299]
    q[0, 0, asking] = 4 * torch.randn(5, 16)
    weights = mixer().weights(q, k, torch.ones(1, 1, 300, 300, dtype=torch.bool))
    assert sorted(weights.amax(-1)[0, 0].topk(5).indices.tolist()) == asking


def test_sampled_keys_cover_what_is_seen_evenly_and_follow_the_count() -> None:
    key = mixer().sample_key
    index = sampled_keys(key, torch.full((1, 500), 37), 40)
    assert index.min() == 0
    assert index.max() == 36
    often = index.flatten().bincount(minlength=37).double()
    expected = 500 * 40 / 37
    assert ((often - expected).square() / expected).sum() < 68  # chi-squared of 36 degrees of freedom: p = 0.001
    assert torch.equal(index, sampled_keys(key, torch.full((1, 500), 37), 40))
    assert not torch.equal(index, sampled_keys(mixer(number=1).sample_key, torch.full((1, 500), 37), 40))


def test_each_training_step_has_its_own_sample_and_a_restart_the_same() -> None:

    def build() -> torch.nn.Module:
        return build_model(ForecasterConfig(**SMALL), 5, vocabulary=0, heads=Heads(words=False, channels=2)).eval()

    model, again = build(), build()
    keys = []
    for step in (1, 2, 3):
        renew_features(model, step)
        keys.append(int(model.state_dict()["encoder.blocks.0.self.layer.mixer.sample_key"]))
    renew_features(again, 3)
    assert len({*keys}) == 3
    assert int(again.state_dict()["encoder.blocks.0.self.layer.mixer.sample_key"]) == keys[2]
    past = torch.randn(2, 48, 2)
    assert torch.equal(model(past), model(past))
    assert torch.equal(model(past), again(past))


def test_a_probe_shows_some_rows_as_it_shows_all() -> None:
    model = build_model(ForecasterConfig(**SMALL), 5, vocabulary=0, heads=Heads(words=False, channels=2)).eval()
    with probe(model) as seen:
        model(torch.randn(2, 48, 2))
    whole = seen["encoder.0.self"].weights()
    torch.testing.assert_close(seen["encoder.0.self"].weights(heads=[1], rows=[40, 3]), whole[:, 1:][:, :, [40, 3]])
    even = (whole - 1 / 48).abs().amax(-1) < 1e-6
    assert (even.sum(-1) == 48 - 4).all()
    assert seen["decoder.0.cross"].weights().shape == (2, 2, 8, 48)


def test_the_cost_is_that_of_the_chosen_queries() -> None:
    of = mixer(5)
    assert of.count(4096) == 45
    assert of.flops(4096, 4096, 64, 1.0) < 4 * 4096 * 4096 * 64 / 50
    assert of.flops(20, 20, 64, 1.0) == 4 * 20 * 20 * 64


def test_what_it_cannot_do_is_refused() -> None:
    with pytest.raises(UserError, match=r"sampling_factor=3 is for model\.mixer=probsparse"):
        BERTConfig(sampling_factor=3)
    with pytest.raises(UserError, match="sampling_factor"):
        BERTConfig(mixer="probsparse", sampling_factor=0)
    with pytest.raises(UserError, match="leaves out single pairs"):
        BERTConfig(mixer="probsparse", visibility="window(3)")
    with pytest.raises(UserError, match="adds a bias to scores"):
        BERTConfig(mixer="probsparse", position="alibi")
    with pytest.raises(UserError, match=r"model\.memory=8 is for mixers"):
        GPTConfig(mixer="probsparse", position="rotary", memory=8)
    with pytest.raises(UserError, match=r"model\.family=transformer writes token after token"):
        load_recipe("translate", ["model.mixer=probsparse"])
    q, k, v = drawn(1, 6)
    with pytest.raises(ValueError, match="several documents cannot share one"):
        mixer().mix(q, k, v, laid(documents(torch.zeros(1, 6)), 6, 1))
    with pytest.raises(ValueError, match="it cannot see"):
        mixer().mix(q, k, v, laid(window(2), 6, 1))
