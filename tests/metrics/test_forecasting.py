"""Scores of forecasts against numpy, and fitted linear forecasts against numpy's least squares."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from regard.data.batching.series import SeriesStore, Windows
from regard.metrics.forecasting import ForecastScores, fit_linear, measure, naive, seasonal
from regard.objectives.forecasting import ForecastingConfig

RANDOM = np.random.default_rng(0)
VALUES = np.cumsum(RANDOM.normal(size=(60, 2)), 0).astype(np.float32)


QUANTILES = ForecastingConfig(loss="quantile", quantiles=(0.1, 0.5, 0.9))


def windows(lookback: int = 6, horizon: int = 3) -> Windows:
    store = SeriesStore(VALUES, np.zeros((60, 0), np.float32))
    return Windows(store, np.arange(60 - lookback - horizon + 1), lookback, horizon, 0, 60)


def test_naive_forecasts_repeat_a_value_or_a_season():
    past = torch.arange(6.0)[None, :, None]
    assert naive(past, 4).flatten().tolist() == [5, 5, 5, 5]
    assert seasonal(past, 5, 3).flatten().tolist() == [3, 4, 5, 3, 4]
    assert seasonal(past, 3, 99).flatten().tolist() == [0, 1, 2]  # as much as there is


@pytest.mark.parametrize("last", [False, True])
def test_linear_forecasts_are_those_of_least_squares(last):
    data = windows()
    window = next(iter(data.in_order(1000))).window()
    x, y = (part.transpose(1, 2).flatten(0, 1).double().numpy() for part in window[:2])
    level = x[:, -1:] if last else np.zeros((len(x), 1))
    inputs = x - level if last else np.concatenate([x, np.ones((len(x), 1))], 1)
    # the ridge as further rows
    ridge = np.sqrt(1e-3 * (inputs**2).mean(0).mean() * len(inputs)) * np.eye(inputs.shape[1])
    rows, targets = np.concatenate([inputs, ridge]), np.concatenate([y - level, np.zeros((inputs.shape[1], 3))])
    expected = inputs @ np.linalg.lstsq(rows, targets, rcond=None)[0] + level
    found = fit_linear(data, last=last)(window.past_BLC).transpose(1, 2).flatten(0, 1)
    np.testing.assert_allclose(found.numpy(), expected, atol=2e-3)


def test_every_window_is_counted_whatever_the_batches():
    data = windows()

    def model(past: torch.Tensor) -> torch.Tensor:
        point = naive(past, 3)
        return torch.stack([point - 1, point, point + 1], -1)

    found = {}
    for size in (7, 1000):
        forecasts = {"model": model, "naive": lambda past: naive(past, 3)}
        errors, count = measure(forecasts, data.in_order(size), QUANTILES, (-0.5, 0.25))
        assert count == len(data) == 52
        scores = ForecastScores(errors, count, ("a", "b"), (2.0, 3.0), (1.0, 0.5), QUANTILES, best=(0.1, 0.3))
        found[size] = scores.as_dict()
    error = np.stack([VALUES[s + 6 : s + 9] - VALUES[s + 5] for s in range(52)])
    future = np.stack([VALUES[s + 6 : s + 9] for s in range(52)])
    for scored in found.values():
        assert scored["mse"] == pytest.approx((error**2).mean(), rel=1e-5)
        assert scored["mae"] == pytest.approx(np.abs(error).mean(), rel=1e-5)
        assert scored["beside"]["naive"]["mse"] == pytest.approx(scored["mse"])
        mae_C = np.abs(error).mean((0, 1))
        assert scored["mase"] == pytest.approx((mae_C * [2 / 1, 3 / 0.5]).mean(), rel=1e-5)
        assert scored["coverage"] == pytest.approx((np.abs(error) <= 1).mean(), abs=1e-6)
        losses = [2 * np.maximum(q * (error - d), (q - 1) * (error - d)) for q, d in ((0.1, -1), (0.5, 0), (0.9, 1))]
        assert scored["crps"] == pytest.approx(np.mean(losses), rel=1e-5)
        sizes_C = np.abs(future - [-0.5, 0.25]).sum((0, 1))
        assert scored["wql"] == pytest.approx(np.mean([loss.sum((0, 1)) / sizes_C for loss in losses]), rel=1e-5)
        assert scored["mae_by_step"] == pytest.approx(np.abs(error).mean((0, 2)).tolist(), rel=1e-5)
        assert scored["mae_units"] == pytest.approx({"a": 2 * mae_C[0], "b": 3 * mae_C[1]}, rel=1e-5)
        assert scored["best_possible_mse"] == pytest.approx(0.2)


def test_a_distribution_is_scored_by_its_own_quantiles_and_exact_crps():
    data, objective = windows(), ForecastingConfig(loss="normal")

    def model(past: torch.Tensor) -> torch.Tensor:
        return torch.stack([naive(past, 3), torch.full((len(past), 3, 2), 1.5)], -1)

    errors, count = measure({"model": model}, data.in_order(20), objective)
    scored = ForecastScores(errors, count, ("a", "b"), (1.0, 1.0), (1.0, 1.0), objective).as_dict()
    z = np.stack([VALUES[s + 6 : s + 9] - VALUES[s + 5] for s in range(52)]) / 1.5
    expected = 1.5 * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / np.sqrt(np.pi))
    assert scored["crps"] == pytest.approx(expected.mean(), rel=1e-5)
    assert scored["coverage"] == pytest.approx((np.abs(z) <= stats.norm.ppf(0.9)).mean(), abs=1e-6)
    assert scored["mse"] == pytest.approx((1.5**2 * z**2).mean(), rel=1e-5)


def test_a_forecast_of_one_number_has_its_absolute_error_as_crps():
    errors, _ = measure({"naive": lambda past: naive(past, 3)}, windows().in_order(20), QUANTILES)
    found = errors["naive"]
    assert found.crps / found.windows == pytest.approx(np.mean(found.absolutes()), rel=1e-6)
