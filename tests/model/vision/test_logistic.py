"""Mixtures of logistics against the definition in float64, level by level; and levels of a colour add up to 1."""

import math

import pytest
import torch

from regard.model.vision.logistic import (
    COUPLED,
    UNCOUPLED,
    coupled_likelihood,
    log_likelihood,
    log_probabilities,
    next_colour,
    scaled,
    spread,
)


def mass(level: int, mean: float, log_scale: float, count: int) -> float:
    """The logistic distribution's mass between the borders of a level, from its cumulative function."""
    x, half = level * 2 / (count - 1) - 1, 1 / (count - 1)

    def below(border: float) -> float:
        return 1 / (1 + math.exp(-(border - mean) / math.exp(log_scale)))

    return (1.0 if level == count - 1 else below(x + half)) - (0.0 if level == 0 else below(x - half))


def defined(numbers: list[float], level: int, count: int) -> float:
    """The probability of a level under a mixture, as its definition says."""
    k = len(numbers) // UNCOUPLED
    total = sum(map(math.exp, numbers[:k]))
    return sum(math.exp(numbers[n]) / total * mass(level, numbers[k + n], numbers[2 * k + n], count) for n in range(k))


@pytest.mark.parametrize("count", [2, 5, 256])
def test_probabilities_are_those_of_the_definition_and_add_up_to_one(count):
    numbers_NP = torch.randn(4, UNCOUPLED * 3) * torch.tensor([1.0, 0.7, 1.5]).repeat_interleave(3)
    found = log_probabilities(numbers_NP, count).double().exp()
    assert found.shape == (4, count)
    torch.testing.assert_close(found.sum(-1), torch.ones(4).double(), atol=2e-6, rtol=0)
    expected = torch.tensor([[defined(row, level, count) for level in range(count)] for row in numbers_NP.tolist()])
    torch.testing.assert_close(found, expected.double(), atol=1e-6, rtol=2e-4)


def test_one_level_is_as_likely_as_among_all():
    numbers_NP, level_N = torch.randn(50, 30), torch.randint(256, (50,))
    every = log_probabilities(numbers_NP, 256).gather(-1, level_N[:, None])[:, 0]
    torch.testing.assert_close(log_likelihood(numbers_NP, level_N, 256), every)


def test_far_from_every_mean_both_values_and_gradients_are_finite():
    """Where the difference of two sigmoids rounds to nothing: PixelCNN++ takes the density there, which is not a probability."""
    numbers_NP = torch.tensor([[0.0, 0.9, -7.0], [0.0, -3.0, -20.0], [0.0, 0.2, 50.0]], requires_grad=True)
    found = log_likelihood(numbers_NP, torch.tensor([3, 250, 100]), 256)
    found.sum().backward()
    assert found.isfinite().all()
    assert numbers_NP.grad.isfinite().all()
    assert found[0] < -500


def test_coupled_colours_are_the_chain_of_their_conditionals():
    numbers_NP, level_NC = torch.randn(20, COUPLED * 4), torch.randint(16, (20, 3))
    joint = coupled_likelihood(numbers_NP, level_NC, 16)
    chain = sum(next_colour(numbers_NP, level_NC, c, 16).gather(-1, level_NC[:, c, None])[:, 0] for c in range(3))
    torch.testing.assert_close(joint, chain, atol=1e-4, rtol=1e-4)
    for colour in range(3):
        torch.testing.assert_close(next_colour(numbers_NP, level_NC, colour, 16).exp().sum(-1), torch.ones(20))


def test_means_are_shifted_by_the_colours_before_them():
    """PixelCNN++, equation 3, for one mixture component, in float64."""
    numbers = torch.randn(COUPLED).double()
    red, green, blue = 3, 12, 7
    x = [float(scaled(torch.tensor(level), 16)) for level in (red, green, blue)]
    _, m_r, m_g, m_b, s_r, s_g, s_b, alpha, beta, gamma = numbers.tolist()
    expected = (
        mass(red, m_r, s_r, 16)
        * mass(green, m_g + math.tanh(alpha) * x[0], s_g, 16)
        * mass(blue, m_b + math.tanh(beta) * x[0] + math.tanh(gamma) * x[1], s_b, 16)
    )
    found = coupled_likelihood(numbers[None], torch.tensor([[red, green, blue]]), 16)
    assert math.isclose(found.exp().item(), expected, rel_tol=1e-4)


def test_a_head_starts_with_bumps_from_dark_to_bright():
    for parts, colours in ((UNCOUPLED, 1), (COUPLED, 3)):
        pieces = spread(5, parts).chunk(parts)
        for mean in pieces[1 : 1 + colours]:
            assert mean.tolist() == [-1.0, -0.5, 0.0, 0.5, 1.0]
        assert not torch.cat([pieces[0], *pieces[1 + 2 * colours :]]).any()
    assert spread(1, UNCOUPLED).tolist() == [0.0, 0.0, -1.5]
