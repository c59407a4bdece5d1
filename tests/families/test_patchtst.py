"""PatchTST against a plain forward pass in the words of the paper and of the authors' code."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.errors import UserError
from regard.families import build_model
from regard.families.base import Heads
from regard.families.patchtst import PatchTSTConfig
from regard.model.probe import probe

SMALL = dict(width=8, heads=2, layers=3, feedforward=12, lookback=22, horizon=5, patch=6, stride=4)
PAST = 3 + torch.randn(2, 22, 3, generator=torch.Generator().manual_seed(1))


def build(**settings: object) -> torch.nn.Module:
    config = PatchTSTConfig(**(SMALL | settings))
    return build_model(config, 5, vocabulary=0, heads=Heads(words=False, channels=3)).eval()


def published(weights: dict[str, Tensor], past: Tensor) -> Tensor:
    """The authors' encoder: post-norm, batch normalisation by running averages, scores handed on from layer to layer."""
    x = past.transpose(1, 2)
    mean, deviation = x.mean(-1, keepdim=True), (x.var(-1, keepdim=True, correction=0) + 1e-5).sqrt()
    x = F.pad((x - mean) / deviation, (0, 4), mode="replicate").unfold(-1, 6, 4)
    x = x.flatten(0, 1) @ weights["embed.weight"].T + weights["embed.bias"] + weights["positions.scheme.table.weight"]
    scores = torch.zeros(1)
    for n in range(3):
        w = {name.removeprefix(f"encoder.blocks.{n}."): tensor for name, tensor in weights.items()}
        q, k, v = (
            part.unflatten(-1, (2, 4)).transpose(1, 2)
            for part in (x @ w["self.layer.project.weight"].T + w["self.layer.project.bias"]).chunk(3, -1)
        )
        scores = q @ k.mT / 2 + scores
        context = (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
        x = normed(w, "self", x + context @ w["self.layer.out.weight"].T + w["self.layer.out.bias"])
        inner = F.gelu(x @ w["ffn.layer.expand.weight"].T + w["ffn.layer.expand.bias"])
        x = normed(w, "ffn", x + inner @ w["ffn.layer.contract.weight"].T + w["ffn.layer.contract.bias"])
    y = x.flatten(1) @ weights["head.weight"].T + weights["head.bias"]
    return (y.view(2, 3, 5) * deviation + mean).transpose(1, 2)


def normed(w: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    mean, variance = w[f"{name}.norm.mean_D"], w[f"{name}.norm.variance_D"]
    return (x - mean) / (variance + 1e-5).sqrt() * w[f"{name}.norm.weight"] + w[f"{name}.norm.bias"]


def test_the_defaults_are_the_authors_code():
    model = build()
    torch.manual_seed(0)
    for name, tensor in model.state_dict().items():
        tensor.copy_(torch.rand_like(tensor) + 0.5 if "variance" in name else torch.randn_like(tensor) * 0.3)
    weights = model.state_dict()
    torch.testing.assert_close(model(PAST), published(weights, PAST), atol=1e-4, rtol=1e-4)
    assert model.config.context == 6


def test_channels_do_not_see_each_other():
    model, other = build(), PAST.clone()
    other[..., 1] += 1 + torch.arange(22) % 5
    same = torch.isclose(model(PAST), model(other), atol=1e-6).all(1).all(0)
    assert same.tolist() == [True, False, True]


def test_a_probe_sees_the_attention_over_patches():
    model = build()
    with probe(model) as seen:
        model(PAST)
        weights = seen.weights("encoder.2.self") if hasattr(seen, "weights") else seen.seen["encoder.2.self"].weights()
    assert weights.shape == (6, 2, 6, 6)
    torch.testing.assert_close(weights.sum(-1), torch.ones(6, 2, 6))


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"patch": 30}, "model.patch=30 is longer"),
        ({"maximum_length": 7}, "model.lookback"),
        ({"mixer": "linear-relu"}, "residual_scores"),
        ({"position": "rotary"}, "residual_scores"),
        ({"norm": "rms"}, "batch_norm"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings, told):
    with pytest.raises(UserError, match=told):
        build(**settings)
