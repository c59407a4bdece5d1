"""Attention by features in its quadratic form, written from the papers' formulas in float64."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.model.mixers.feature_maps import PositiveFeatures, ReluFeatures
from regard.model.mixers.linear import Favor
from regard.model.visibility import View, Visibility

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
