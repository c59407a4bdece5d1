"""Losses of forecasts by their definitions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from regard.core.errors import UserError
from regard.data.batching.series import SeriesBatch, SeriesStore
from regard.objectives.forecasting import ForecastingConfig, ForecastingLoss, quantiles_of

VALUES = np.random.default_rng(0).normal(size=(30, 2)).astype(np.float32)


class Constant(torch.nn.Module):
    """Forecasts the same numbers always."""

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.forecast = torch.randn(*shape, generator=torch.Generator().manual_seed(0))

    def forward(self, past_BLC: torch.Tensor) -> torch.Tensor:
        return self.forecast


def batch() -> SeriesBatch:
    store = SeriesStore(VALUES, np.zeros((30, 0), np.float32))
    return SeriesBatch(torch.tensor([0, 11]), 2, store, 6, 4)


def test_squared_and_absolute_errors_of_windows_add_up():
    model = Constant(2, 4, 2)
    future = np.stack([VALUES[6:10], VALUES[17:21]])
    error = model.forecast.numpy() - future
    for loss, expected in (("mse", error**2), ("mae", np.abs(error))):
        found = ForecastingLoss(ForecastingConfig(loss=loss))(model.eval(), batch())
        assert found.count == 2
        assert found.total.item() / 2 == pytest.approx(expected.mean(), abs=1e-6)
        assert found.parts["mse"].item() / 2 == pytest.approx((error**2).mean(), abs=1e-6)
        assert not ForecastingLoss(ForecastingConfig(loss=loss))(model.train(), batch()).parts


def test_the_pinball_loss_weighs_what_lies_above_and_below():
    model, quantiles = Constant(2, 4, 2, 3), (0.1, 0.5, 0.8)
    future = np.stack([VALUES[6:10], VALUES[17:21]])
    found = ForecastingLoss(ForecastingConfig(loss="quantile", quantiles=quantiles))(model.eval(), batch())
    total = 0.0
    for n, q in enumerate(quantiles):
        error = future - model.forecast.numpy()[..., n]
        total += 2 * np.where(error > 0, q * error, (q - 1) * error).mean() / 3
    assert found.total.item() / 2 == pytest.approx(total, abs=1e-6)
    middle = model.forecast.numpy()[..., 1]
    assert found.parts["mae"].item() / 2 == pytest.approx(np.abs(future - middle).mean(), abs=1e-6)


@pytest.mark.parametrize(
    ("loss", "oracle"),
    [
        ("normal", lambda p, y: stats.norm(p[..., 0], p[..., 1]).logpdf(y)),
        ("student_t", lambda p, y: stats.t(p[..., 0], p[..., 1], p[..., 2]).logpdf(y)),
        ("negative_binomial", lambda p, y: stats.nbinom(p[..., 0], 1 / (1 + np.exp(p[..., 1]))).logpmf(y)),
    ],
)
def test_the_likelihood_of_a_distribution_is_the_loss(loss, oracle):
    config = ForecastingConfig(loss=loss)
    size = len(config.distribution.names)
    model = Constant(2, 4, 2, size)
    model.forecast = config.distribution.parameters(model.forecast, torch.zeros(()), torch.ones(()))
    counts = np.random.default_rng(0).poisson(3, (30, 2)).astype(np.float32)
    values = counts if loss == "negative_binomial" else VALUES
    store = SeriesStore(values, np.zeros((30, 0), np.float32))
    found = ForecastingLoss(config)(model.eval(), SeriesBatch(torch.tensor([0, 11]), 2, store, 6, 4))
    future = np.stack([values[6:10], values[17:21]])
    assert found.total.item() / 2 == pytest.approx(-oracle(model.forecast.double().numpy(), future).mean(), rel=1e-4)
    middle = config.distribution.quantile(model.forecast, 0.5).numpy()
    assert found.parts["mae"].item() / 2 == pytest.approx(np.abs(middle - future).mean(), rel=1e-5)


def test_quantiles_of_every_kind_are_in_order():
    crossed = torch.tensor([[[[3.0, 1.0, 2.0]]]])
    assert quantiles_of(crossed, ForecastingConfig(loss="quantile", quantiles=(0.1, 0.5, 0.9))).flatten().tolist() == [1, 2, 3]
    assert quantiles_of(crossed[..., 0], ForecastingConfig()) is None
    found = quantiles_of(torch.tensor([[[[5.0, 2.0]]]]), ForecastingConfig(loss="normal"))
    np.testing.assert_allclose(found.flatten().numpy(), stats.norm(5, 2).ppf([0.1, 0.5, 0.9]), rtol=1e-6)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"loss": "quantile"}, "belong together"),
        ({"quantiles": (0.5,)}, "belong together"),
        ({"loss": "mae", "quantiles": (0.5,)}, "belong together"),
        ({"loss": "normal", "quantiles": (0.1, 0.9)}, "0.5"),
        ({"loss": "quantile", "quantiles": (0.5, 1.0)}, "between 0 and 1"),
        ({"loss": "quantile", "quantiles": (0.9, 0.5)}, "must rise"),
        ({"loss": "quantile", "quantiles": (0.1, 0.9)}, "0.5"),
    ],
)
def test_quantiles_that_cannot_be_are_refused(settings, told):
    with pytest.raises(UserError, match=told):
        ForecastingConfig(**settings)
