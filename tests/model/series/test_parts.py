"""Layers of forecasting models against numpy and layers of torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from regard.model.series.parts import (
    FastDropout,
    InstanceNorm,
    SeriesLinear,
    TokenBatchNorm,
    count_patches,
    cut_patches,
    moving_average,
)


def random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("kind", ["none", "last", "standard", "mean"])
def test_a_window_loses_its_level_and_gets_it_back(kind):
    norm, past = InstanceNorm(kind), 5 + 3 * random(2, 9, 4)
    found, level = norm(past)
    x = past.numpy()
    expected = {
        "none": x,
        "last": x - x[:, -1:],
        "mean": x / np.abs(x).mean(1, keepdims=True),
        "standard": (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5),
    }
    torch.testing.assert_close(found, torch.from_numpy(expected[kind]), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(norm.back(found, level), past, atol=1e-5, rtol=1e-5)
    quantiles = norm.back(found[..., None].expand(-1, -1, -1, 3), level)
    torch.testing.assert_close(quantiles[..., 1], past, atol=1e-5, rtol=1e-5)
    loc, scale = norm.affine_back(level)
    torch.testing.assert_close(loc + scale * found, past, atol=1e-5, rtol=1e-5)


def test_an_affine_norm_is_undone_as_well():
    norm, past = InstanceNorm("standard", 4, affine=True), 5 + 3 * random(2, 9, 4)
    norm.weight.data, norm.bias.data = torch.tensor([1.5, 0.5, 2.0, 1.0]), torch.tensor([0.1, 0.2, -0.3, 0.0])
    found, level = norm(past)
    plain, _ = InstanceNorm("standard")(past)
    torch.testing.assert_close(found, plain * norm.weight + norm.bias)
    torch.testing.assert_close(norm.back(found, level), past, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(norm.back(found[..., None], level)[..., 0], past, atol=1e-4, rtol=1e-4)
    loc, scale = norm.affine_back(level)
    torch.testing.assert_close(loc + scale * found, past, atol=1e-4, rtol=1e-4)


def test_a_window_of_zeros_is_divided_by_nothing():
    found, level = InstanceNorm("mean")(torch.zeros(1, 4, 2))
    assert not found.any()
    assert (level.scale_B1C == 1).all()


@pytest.mark.parametrize("kernel", [1, 4, 25])
def test_a_trend_is_the_mean_of_neighbours_with_repeated_ends(kernel):
    x = random(2, 3, 40)
    before, after = (kernel - 1) // 2, kernel - 1 - (kernel - 1) // 2
    for row, found in zip(x.flatten(0, 1).numpy(), moving_average(x, kernel).flatten(0, 1).numpy()):
        padded = np.pad(row, (before, after), mode="edge")
        np.testing.assert_allclose(found, np.convolve(padded, np.ones(kernel) / kernel, "valid"), atol=1e-5)


def test_each_channel_may_have_a_matrix_of_its_own():
    layer, x = SeriesLinear(5, 3, 2), random(4, 2, 5)
    layer.draw(torch.Generator().manual_seed(0))
    for channel in range(2):
        plain = nn.Linear(5, 3)
        plain.weight.data, plain.bias.data = layer.weight[channel], layer.bias[channel]
        torch.testing.assert_close(layer(x)[:, channel], plain(x[:, channel]))
    assert layer.weight.abs().max() <= 5**-0.5


@pytest.mark.parametrize(("length", "patch", "stride"), [(336, 16, 8), (20, 6, 4), (21, 6, 4)])
def test_patches_are_as_in_the_authors_code_and_as_in_transformers(length, patch, stride):
    x = random(2, 3, length)
    theirs = nn.ReplicationPad1d((0, stride))(x).unfold(-1, patch, stride)
    assert torch.equal(cut_patches(x, patch, stride, padded=True), theirs)
    assert theirs.shape[2] == count_patches(length, patch, stride, padded=True)
    count = count_patches(length, patch, stride, padded=False)
    kept = x[..., length - patch - stride * (count - 1) :]  # transformers leaves the first values out
    assert torch.equal(cut_patches(x, patch, stride, padded=False), kept.unfold(-1, patch, stride))


def test_batch_normalisation_of_tokens_is_torchs():
    ours, theirs, x = TokenBatchNorm(6), nn.BatchNorm1d(6), 2 + random(4, 5, 6)
    for _ in range(3):
        torch.testing.assert_close(ours(x), theirs(x.transpose(1, 2)).transpose(1, 2))
    torch.testing.assert_close(ours.variance_D, theirs.running_var)
    torch.testing.assert_close(ours.eval()(x), theirs.eval()(x.transpose(1, 2)).transpose(1, 2))


def test_fast_dropout_keeps_its_share_and_the_mean_and_is_seeded():
    layer, x = FastDropout(0.3), torch.ones(1000, 501, requires_grad=True)
    torch.manual_seed(5)
    found = layer(x)
    torch.manual_seed(5)
    assert torch.equal(found, layer(x))
    share = (found == 0).double().mean().item()
    assert abs(share - 0.3) < 5 * (0.3 * 0.7 / found.numel()) ** 0.5
    kept = found[found != 0]
    torch.testing.assert_close(kept, torch.full_like(kept, 1 / 0.7), atol=1e-4, rtol=0)
    (grad,) = torch.autograd.grad(found.sum(), x)
    assert torch.equal(grad, found.detach())  # of ones
    bits = (found != 0).double()
    for step in (1, 4, 501):  # neighbours, words of the generator, rows: what is dropped says nothing about them
        a, b = bits.flatten()[:-step], bits.flatten()[step:]
        assert abs(((a - a.mean()) * (b - b.mean())).mean().item() / 0.21) < 5 / a.numel() ** 0.5
    assert torch.equal(layer.eval()(x), x)
    assert torch.equal(FastDropout(0.0).train()(x), x)
    assert (FastDropout(1.0).train()(x) == 0).all()
