"""DLinear and NLinear against their formulas (Zeng et al. 2023, section 4)."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.core.errors import UserError
from regard.families import build_model
from regard.families.base import Heads
from regard.families.dlinear import DLinearConfig

PAST = torch.randn(3, 40, 2, generator=torch.Generator().manual_seed(1)) + 4


def build(**settings: object) -> torch.nn.Module:
    return build_model(DLinearConfig(lookback=40, horizon=7, **settings), 5, vocabulary=0, heads=Heads(words=False, channels=2))


def test_dlinear_is_two_linear_maps_of_trend_and_rest():
    model = build()
    for row, found in zip(PAST.transpose(1, 2).flatten(0, 1).numpy(), model(PAST).transpose(1, 2).flatten(0, 1).detach().numpy()):
        trend = np.convolve(np.pad(row, (12, 12), mode="edge"), np.ones(25) / 25, "valid")
        parts = ((model.seasonal, row - trend), (model.trend, trend))
        expected = sum(part.weight.detach().numpy() @ x + part.bias.detach().numpy() for part, x in parts)
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_nlinear_maps_what_is_less_the_last_value():
    model = build(kind="nlinear")
    last = PAST[:, -1:]
    x = (PAST - last).transpose(1, 2)
    expected = (x @ model.seasonal.weight.T + model.seasonal.bias).transpose(1, 2) + last
    torch.testing.assert_close(model(PAST), expected)
    torch.testing.assert_close(model(PAST + 100), model(PAST) + 100, atol=1e-4, rtol=1e-4)


def test_settings_that_contradict_each_other_are_refused():
    with pytest.raises(UserError, match="kind=dlinear"):
        build(kind="nlinear", normalisation="standard")
    with pytest.raises(UserError, match="kernel=9"):
        build(kind="nlinear", kernel=9)
