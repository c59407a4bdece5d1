"""The regularised incomplete beta function, which PyTorch has not: distribution functions of Student's t and of counts need it.

    I_x(a, b) = x^a (1 - x)^b / (a B(a, b)) * 1 / (1 + d_1 / (1 + d_2 / (1 + ...)))

The continued fraction (Abramowitz & Stegun 1964, 26.5.8) is evaluated from its front by the method of Lentz, for all elements at
once, until none changes. It converges fast for x < (a + 1) / (a + b + 2); elsewhere I_x(a, b) = 1 - I_{1-x}(b, a).
"""

from __future__ import annotations

import torch
from torch import Tensor

MOST = 20_000  # terms; about the square root of the larger of a and b is enough
TINY = 1e-300
PRECISION = 1e-14


def incomplete_beta(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    """Return I_x(a, b) in float64, for a, b > 0 and x between 0 and 1."""
    a, b, x = torch.broadcast_tensors(a.double(), b.double(), x.double())
    turned = x > (a + 1) / (a + b + 2)
    first, second = torch.where(turned, b, a), torch.where(turned, a, b)
    at = torch.where(turned, 1 - x, x)
    constant = torch.lgamma(first + second) - torch.lgamma(first) - torch.lgamma(second)
    front = torch.exp(constant + torch.xlogy(first, at) + torch.xlogy(second, 1 - at)) / first
    found = front * _fraction(first, second, at)
    return torch.where(turned, 1 - found, found)


def _fraction(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    """Return 1 / (1 + d_1 / (1 + d_2 / ...)), d_2m = m (b - m) x / ((a + 2m - 1) (a + 2m)), odd ones of the other sign."""

    def away(y: Tensor) -> Tensor:
        return torch.where(y.abs() < TINY, torch.full_like(y, TINY), y)

    before = torch.ones_like(x)
    after = 1 / away(1 - (a + b) * x / (a + 1))
    found = after
    for m in range(1, MOST):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        after = 1 / away(1 + even * after)
        before = away(1 + even / before)
        found = found * after * before
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        after = 1 / away(1 + odd * after)
        before = away(1 + odd / before)
        change = after * before
        found = found * change
        if bool(((change - 1).abs() < PRECISION).all()):
            break
    return found
