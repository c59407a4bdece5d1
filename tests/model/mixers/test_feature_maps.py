"""Feature maps: their products against the exponential they stand for, over many draws; and draws that are counted."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.model.mixers.feature_maps import PositiveFeatures, ReluFeatures, directions, is_drawn, renew_features


def estimates(q_NK: Tensor, k_NK: Tensor, count: int, seed: int, orthogonal: bool = True) -> Tensor:
    """exp(q . k / sqrt K) of each pair, as `count` features have it."""
    features = PositiveFeatures(q_NK.shape[1], count, "test").double()
    features.directions_FK.copy_(torch.from_numpy(directions(count, q_NK.shape[1], seed, "test", orthogonal=orthogonal)))
    one, two = features(q_NK.double()), features(k_NK.double())
    return (one.phi_BHLF * two.phi_BHLF).mean(-1) * (one.scale_BHL + two.scale_BHL).exp()


def exact(q_NK: Tensor, k_NK: Tensor) -> Tensor:
    return ((q_NK * k_NK).double().sum(-1) / q_NK.shape[1] ** 0.5).exp()


@pytest.fixture
def pairs() -> tuple[Tensor, Tensor]:
    chance = torch.Generator().manual_seed(1)
    q, k = (torch.randn(40, 16, generator=chance) / 2 for _ in range(2))  # the variance grows as exp(|q + k|^2 / sqrt K)
    return q, k


def test_the_mean_over_draws_is_the_exponential(pairs: tuple[Tensor, Tensor]) -> None:
    found = torch.stack([estimates(*pairs, count=32, seed=seed) for seed in range(400)])
    deviation = found.std(0) / len(found) ** 0.5
    off = (found.mean(0) - exact(*pairs)) / deviation
    assert off.abs().max() < 4.5
    assert off.square().mean() < 2  # all 40 together


def test_the_error_falls_with_the_number_of_features(pairs: tuple[Tensor, Tensor]) -> None:
    counts = [16, 32, 64, 128, 256, 512, 1024]
    errors = [
        np.mean([float((estimates(*pairs, n, seed) / exact(*pairs) - 1).square().mean()) for seed in range(60)]) for n in counts
    ]
    slope, _ = np.polyfit(np.log(counts), np.log(errors), 1)
    assert -1.15 < slope < -0.85


def test_orthogonal_directions_err_less_than_independent_ones(pairs: tuple[Tensor, Tensor]) -> None:
    error = {
        orthogonal: np.mean(
            [float((estimates(*pairs, 16, seed, orthogonal) / exact(*pairs) - 1).square().mean()) for seed in range(300)]
        )
        for orthogonal in (True, False)
    }
    assert error[True] < 0.9 * error[False]


@given(st.integers(1, 40), st.integers(1, 12), st.integers(0, 2**40))
@settings(max_examples=40)
def test_directions_are_at_right_angles_a_width_at_a_time(count: int, width: int, seed: int) -> None:
    drawn = directions(count, width, seed, "encoder.0.self")
    assert drawn.shape == (count, width)
    unit = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    for start in range(0, count, width):
        block = unit[start : start + width]
        np.testing.assert_allclose(block @ block.T, np.eye(len(block)), atol=1e-10)


def test_each_direction_is_as_if_drawn_alone() -> None:
    """Of 16 normal numbers squares sum to 16 in the mean, with a variance of 32; no direction is preferred."""
    drawn = np.concatenate([directions(32, 16, seed, "x") for seed in range(300)])
    squares = (drawn**2).sum(1)
    assert abs(squares.mean() - 16) < 4 * (32 / len(squares)) ** 0.5
    assert abs(squares.var() / 32 - 1) < 0.1
    np.testing.assert_allclose(drawn.mean(0), 0, atol=4 / len(drawn) ** 0.5)
    np.testing.assert_allclose(drawn.T @ drawn / len(drawn), np.eye(16), atol=0.06)


def test_draws_are_counted_and_leave_the_callers_chance_alone() -> None:
    torch.manual_seed(5)
    np.random.seed(5)
    features = PositiveFeatures(8, 20, "decoder.1.self")
    features.draw(3, 2)
    after = torch.rand(1).item(), np.random.rand()
    torch.manual_seed(5)
    np.random.seed(5)
    assert after == (torch.rand(1).item(), np.random.rand())
    again = PositiveFeatures(8, 20, "decoder.1.self")
    again.draw(3, 2)
    assert torch.equal(features.directions_FK, again.directions_FK)
    for seed, name, number in ((4, "decoder.1.self", 2), (3, "decoder.0.self", 2), (3, "decoder.1.self", 1)):
        assert not np.allclose(directions(20, 8, seed, name, number), features.directions_FK.numpy())


def test_they_are_drawn_anew_by_the_number_of_the_step() -> None:
    whole, resumed, never = (PositiveFeatures(8, 20, "x", redraw_every=every) for every in (3, 3, 0))
    for features in (whole, resumed, never):
        features.draw(7, 0)
    place, seen = whole.directions_FK.data_ptr(), []
    for step in range(1, 10):
        renew_features(whole, step)
        renew_features(never, step)
        seen.append(whole.directions_FK.clone())
    assert whole.directions_FK.data_ptr() == place
    assert [torch.equal(a, b) for a, b in pairwise(seen)] == [True, True, False] * 2 + [True, True]
    renew_features(resumed, 8)  # as a run that goes on from step 7
    assert torch.equal(resumed.directions_FK, seen[7])
    assert torch.equal(never.directions_FK, seen[0])


def test_far_vectors_have_features_that_are_numbers() -> None:
    features = PositiveFeatures(8, 20, "x")
    features.draw(0, 0)
    for size in (0.0, 1.0, 1e3, 1e6):
        phi, scale = features(torch.full((1, 1, 2, 8), size))
        assert phi.isfinite().all()
        assert scale.isfinite().all()
        assert (phi > 0).all()
        assert (phi.amax(-1) == 1).all()


def test_relu_features_need_no_draw() -> None:
    phi, scale = ReluFeatures()(torch.tensor([[[[-2.0, 3.0]]]]))
    torch.testing.assert_close(phi, torch.tensor([[[[0.001, 3.001]]]]))
    assert scale.tolist() == [[[0.0]]]


def test_drawn_tensors_are_known_by_name() -> None:
    assert is_drawn("encoder.blocks.0.self.layer.mixer.features.directions_FK")
    assert not is_drawn("encoder.blocks.0.self.layer.project.weight")
