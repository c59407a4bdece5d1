"""The incomplete beta function against scipy's, over nine orders of magnitude of its parameters."""

from __future__ import annotations

import numpy as np
import torch
from scipy import special

from regard.model.series.incomplete_beta import incomplete_beta


def test_it_equals_scipy():
    random = np.random.default_rng(0)
    a, b = 10 ** random.uniform(-2, 5, (2, 500))
    x = np.concatenate([random.beta(a[:400], b[:400]), random.random(100)])  # where it rises, and anywhere
    found = incomplete_beta(*(torch.from_numpy(part) for part in (a, b, x)))
    np.testing.assert_allclose(found.numpy(), special.betainc(a, b, x), atol=1e-8)


def test_its_ends_are_0_and_1():
    a = torch.tensor([0.5, 3.0, 100.0])
    assert incomplete_beta(a, a, torch.zeros(3)).tolist() == [0, 0, 0]
    assert incomplete_beta(a, a, torch.ones(3)).tolist() == [1, 1, 1]
    torch.testing.assert_close(incomplete_beta(a, a, torch.tensor(0.5)), torch.full((3,), 0.5, dtype=torch.float64))
