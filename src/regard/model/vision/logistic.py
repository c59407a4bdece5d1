"""The discretised mixture of logistics: the probability of a colour's level as a mass under a few smooth bumps.

    P(x) = sum_k w_k [sigma((x + h - m_k) / s_k) - sigma((x - h - m_k) / s_k)]

Salimans et al. 2017 (PixelCNN++), section 2.1: levels lie evenly from -1 to 1, 2h apart; the lowest level takes all mass below it
and the highest all above. So the levels of a colour add up to 1, and neighbouring levels have similar probabilities before
anything is learned about them. Coupled (their equation 3), the three colours of a pixel come from one mixture, and the means of
green and blue are shifted in proportion to the colours before them: red, then green given red, then blue given both.

The mass is computed as sigma(a) sigma(-b) (1 - e^(b - a)) for a > b, which is exact and never rounds to nothing, where the paper
falls back to the density. Everything is in float32.

Dims: N tokens, K components, V levels, C colours.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

COLOURS = 3
SHIFTS = 3  # of green by red, of blue by red, of blue by green
LARGEST_LOG = 7.0  # of a scale, with either sign, as in the paper: no bump is narrower than a tenth of a level
UNCOUPLED, COUPLED = 3, 1 + 2 * COLOURS + SHIFTS  # numbers of a component


def scaled(levels: Tensor, count: int) -> Tensor:
    """Return levels 0 to `count` - 1 as numbers from -1 to 1."""
    return levels.float() * (2 / (count - 1)) - 1


def log_mass(level: Tensor, mean: Tensor, log_scale: Tensor, count: int) -> Tensor:
    """Return the log-probability of levels under one logistic each; shapes broadcast."""
    inverse = torch.exp(-log_scale.clamp(-LARGEST_LOG, LARGEST_LOG))
    from_mean, half = scaled(level, count) - mean, 1 / (count - 1)
    below, above = inverse * (from_mean - half), inverse * (from_mean + half)
    lowest, highest = level == 0, level == count - 1
    between = torch.log(-torch.expm1(below - above))
    return (
        F.logsigmoid(above).masked_fill(highest, 0.0)
        + F.logsigmoid(-below).masked_fill(lowest, 0.0)
        + between.masked_fill(lowest | highest, 0.0)
    )


def log_probabilities(numbers_NP: Tensor, count: int) -> Tensor:
    """Return logprob_NV of every level, of an uncoupled mixture; N are any dimensions."""
    weight_NK, mean_NK, log_scale_NK = numbers_NP.float().chunk(UNCOUPLED, -1)
    level_V1 = torch.arange(count, device=numbers_NP.device)[:, None]
    mass_NVK = log_mass(level_V1, mean_NK[..., None, :], log_scale_NK[..., None, :], count)
    return (mass_NVK + weight_NK.log_softmax(-1)[..., None, :]).logsumexp(-1)


def log_likelihood(numbers_NP: Tensor, level_N: Tensor, count: int) -> Tensor:
    """Return logprob_N of these levels, of an uncoupled mixture."""
    weight_NK, mean_NK, log_scale_NK = numbers_NP.float().chunk(UNCOUPLED, -1)
    mass_NK = log_mass(level_N[..., None], mean_NK, log_scale_NK, count)
    return (mass_NK + weight_NK.log_softmax(-1)).logsumexp(-1)


def coupled_likelihood(numbers_NP: Tensor, level_NC: Tensor, count: int) -> Tensor:
    """Return logprob_N of the three colours of a pixel together."""
    joint_NK = numbers_NP.float().chunk(COUPLED, -1)[0].log_softmax(-1)
    for colour in range(COLOURS):
        mean_NK, log_scale_NK = _component(numbers_NP, level_NC, colour, count)
        joint_NK = joint_NK + log_mass(level_NC[..., colour, None], mean_NK, log_scale_NK, count)
    return joint_NK.logsumexp(-1)


def next_colour(numbers_NP: Tensor, level_NC: Tensor, colour: int, count: int) -> Tensor:
    """Return logprob_NV of the levels of one colour of a coupled pixel, given the `colour` colours before it."""
    weight_NK = numbers_NP.float().chunk(COUPLED, -1)[0].log_softmax(-1)
    for known in range(colour):
        mean_NK, log_scale_NK = _component(numbers_NP, level_NC, known, count)
        weight_NK = weight_NK + log_mass(level_NC[..., known, None], mean_NK, log_scale_NK, count)
    mean_NK, log_scale_NK = _component(numbers_NP, level_NC, colour, count)
    together = torch.cat([weight_NK, mean_NK, log_scale_NK], -1)  # a mixture of one colour; its weights are normalised there
    return log_probabilities(together, count)


def _component(numbers_NP: Tensor, level_NC: Tensor, colour: int, count: int) -> tuple[Tensor, Tensor]:
    """Return mean_NK and log_scale_NK of a colour, its mean shifted by the colours before it."""
    parts = numbers_NP.float().chunk(COUPLED, -1)
    mean_NK, log_scale_NK, shifts = parts[1 + colour], parts[1 + COLOURS + colour], parts[1 + 2 * COLOURS :]
    first = colour * (colour - 1) // 2  # red has none, green one, blue the other two
    for before in range(colour):
        mean_NK = mean_NK + shifts[first + before].tanh() * scaled(level_NC[..., before, None], count)
    return mean_NK, log_scale_NK


def spread(mixtures: int, parts: int) -> Tensor:
    """Return the biases that a head starts with: means spread from dark to bright, each bump about as wide as their distance."""
    bias_PK = torch.zeros(parts, mixtures)
    colours = 1 if parts == UNCOUPLED else COLOURS
    bias_PK[1 : 1 + colours] = torch.linspace(-1, 1, mixtures) if mixtures > 1 else 0.0
    bias_PK[1 + colours : 1 + 2 * colours] = -1.5
    return bias_PK.flatten()
