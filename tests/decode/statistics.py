"""Does what was drawn look like what it was drawn from? Pearson's chi-square test."""

from __future__ import annotations

import torch
from torch import Tensor


def chi_square(counts: Tensor, probabilities: Tensor) -> float:
    """The probability of counts at least as far off as these. What should never come must not have."""
    possible = probabilities > 0
    assert not counts[~possible].any()
    expected = probabilities[possible].double() * counts.sum()
    assert expected.min() > 5, "too few draws for the test to mean anything"
    distance = ((counts[possible] - expected) ** 2 / expected).sum()
    freedom = torch.tensor(float(possible.sum() - 1), dtype=torch.float64)
    return torch.special.gammaincc(freedom / 2, distance / 2).item()
