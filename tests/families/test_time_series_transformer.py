"""The family that writes a series value after value: lags, paths, what it returns without the future, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from regard.core.errors import UserError
from regard.families import build_model
from regard.families.base import Heads
from regard.families.time_series_transformer import TimeSeriesTransformerConfig
from regard.model.series.distributions import DISTRIBUTIONS

SMALL: dict[str, Any] = dict(lookback=12, horizon=4, width=16, heads=2, feedforward=16, layers=1, lags=(1, 3), samples=200)
PAST = torch.randn(2, 12, 2, generator=torch.Generator().manual_seed(1)).cumsum(1)
FUTURE = torch.randn(2, 4, 2, generator=torch.Generator().manual_seed(2))


def build(distribution: str = "normal", **settings: Any) -> Any:
    heads = Heads(words=False, channels=2, distribution=distribution)
    return build_model(TimeSeriesTransformerConfig(**(SMALL | settings)), 5, vocabulary=0, heads=heads).eval()


def test_each_time_is_described_by_the_values_before_it_and_no_later_ones():
    model, later = build(), FUTURE.clone()
    later[:, 2] += 5
    before, after = model(PAST, future_BHC=FUTURE), model(PAST, future_BHC=later)
    assert torch.equal(before[:, :3], after[:, :3])
    assert not torch.allclose(before[:, 3], after[:, 3], atol=1e-4)
    level, about = model._described(PAST, None, None)
    features = model._features(torch.arange(16.0).view(1, 16, 1).expand(2, -1, 2), about, 12, 13)
    assert features[0, 0, :4].tolist() == [11, 9, 11, 9]  # lags 1 and 3 of both channels
    assert level.loc_B1C.shape == (2, 1, 2)


def test_the_walk_is_the_given_future_where_it_is_followed():
    """Fed with what it wrote itself, the pass over all times says what the walk over one after the other said."""
    model = build(samples=0)
    with torch.no_grad():
        params = model(PAST)
        torch.testing.assert_close(model(PAST, future_BHC=DISTRIBUTIONS["normal"].mean(params)), params, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["normal", "student_t", "negative_binomial"])
def test_a_forecast_has_the_moments_of_the_paths(name):
    past = PAST.abs().round() if name == "negative_binomial" else PAST
    model = build(name, samples=400, normalisation="mean" if name == "negative_binomial" else "standard")
    distribution = DISTRIBUTIONS[name]
    with torch.no_grad():
        found = model(past)
        assert torch.equal(found, model(past))
        paths = model.sample(past, paths=4000, generator=torch.Generator().manual_seed(3))
        first = model.eval()(past, future_BHC=FUTURE)[:, 0]
    torch.testing.assert_close(found[:, 0], first, atol=1e-4, rtol=1e-3)
    assert paths.shape == (2, 4000, 4, 2)
    deviation = distribution.variance(found).sqrt()
    error = (paths.mean(1) - distribution.mean(found)).abs() / deviation
    assert (error < 5 / 400**0.5).all()  # five standard errors of the smaller sample
    if name == "normal":
        torch.testing.assert_close(paths.std(1), deviation, rtol=0.2, atol=0)


def test_the_spread_grows_with_the_steps_where_each_follows_the_last():
    model = build(samples=400)
    with torch.no_grad():
        one_ahead = model(PAST, future_BHC=FUTURE)
        assert (DISTRIBUTIONS["normal"].variance(model(PAST))[:, 1:] != DISTRIBUTIONS["normal"].variance(one_ahead)[:, 1:]).all()


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (dict(lags=(0, 1)), "times to look back"),
        (dict(lags=()), "times to look back"),
        (dict(lags=(2, 2)), "named once"),
        (dict(lags=(12,)), "leaves nothing behind the longest lag"),
        (dict(visibility="window(2)"), "model.visibility=window"),
        (dict(mixer="favor"), "model.mixer=favor"),
        (dict(position="rotary"), "model.position=rotary"),
        (dict(normalisation="last"), "normalisation=last"),
        (dict(cardinalities=(3,)), "give as many of both"),
        (dict(channels=3), "model.channels=3, and the data has 2"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings, told):
    with pytest.raises(UserError, match=told):
        build(**settings)


def test_quantiles_are_refused_and_missing_features_too():
    with pytest.raises(UserError, match="draws values"):
        build_model(TimeSeriesTransformerConfig(**SMALL), vocabulary=0, heads=Heads(words=False, channels=2, quantiles=3))
    config = TimeSeriesTransformerConfig(**SMALL, distribution="student_t")
    with pytest.raises(UserError, match=r"set objective\.loss=student_t"):
        build_model(config, vocabulary=0, heads=Heads(words=False, channels=2, distribution="normal"))
    with pytest.raises(UserError, match="must be as they were in training"):
        build(known_features=2)(PAST)
    plain = build("")
    assert plain(PAST).shape == (2, 4, 2)
    with pytest.raises(UserError, match="no paths to draw"):
        plain.sample(PAST, generator=torch.Generator())
