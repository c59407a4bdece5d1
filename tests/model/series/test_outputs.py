"""What a model writes for each value is put in its place and into units."""

from __future__ import annotations

import pytest
import torch
from torch.distributions import Normal

from regard.model.series.outputs import ForecastOutput
from regard.model.series.parts import InstanceNorm

PAST = 5 + 3 * torch.randn(2, 9, 3, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(("output", "numbers"), [(ForecastOutput(), 0), (ForecastOutput(4), 4), (ForecastOutput(0, "normal"), 2)])
def test_outputs_of_channels_and_of_times_have_one_order(output, numbers):
    assert output.numbers == numbers
    wanted = torch.arange(2 * 6 * 3 * max(1, numbers)).view(2, 6, 3, -1)  # times, channels, numbers
    wanted = wanted if numbers else wanted[..., 0]
    of_channels = (wanted if numbers else wanted[..., None]).transpose(1, 2).flatten(2)
    assert torch.equal(output.of_channels(of_channels, 6), wanted)
    assert torch.equal(output.of_times(wanted.flatten(2), 3), wanted)


def test_numbers_are_turned_back_and_distributions_are_moved():
    normalise = InstanceNorm("standard")
    _, level = normalise(PAST)
    raw = torch.randn(2, 6, 3, 2, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(ForecastOutput(2).in_units(raw, normalise, level), normalise.back(raw, level))
    loc, scale = ForecastOutput(0, "normal").in_units(raw, normalise, level).unbind(-1)
    z = Normal(loc, scale).icdf(torch.tensor(0.8))  # a quantile moves as its values do
    plain = Normal(raw[..., 0], (raw[..., 1] + (raw[..., 1] ** 2 + 4).sqrt()) / 2).icdf(torch.tensor(0.8))
    torch.testing.assert_close(z, normalise.back(plain, level), atol=1e-4, rtol=1e-4)
