"""Distributions against scipy's, against the integrals that define their scores, and against transformers' maps of parameters."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats
from transformers.time_series_utils import NegativeBinomialOutput, NormalOutput, StudentTOutput

from regard.model.series.distributions import DISTRIBUTIONS

RANDOM = np.random.default_rng(0)
SIZE = 40
LOC, SCALE = RANDOM.normal(size=SIZE), 10 ** RANDOM.uniform(-1, 1, SIZE)
DF, COUNT = 2 + 10 ** RANDOM.uniform(-2, 4, SIZE), 10 ** RANDOM.uniform(-1, 2, SIZE)
ODDS = 10 ** RANDOM.uniform(-1.5, 2.5, SIZE) / COUNT  # of the counts, whose mean is COUNT * ODDS
CASES = {
    "normal": (np.stack([LOC, SCALE], -1), stats.norm(LOC, SCALE)),
    "student_t": (np.stack([DF, LOC, SCALE], -1), stats.t(DF, LOC, SCALE)),
    "negative_binomial": (np.stack([COUNT, np.log(ODDS)], -1), stats.nbinom(COUNT, 1 / (1 + ODDS))),
}
PEERS = {"normal": NormalOutput, "student_t": StudentTOutput, "negative_binomial": NegativeBinomialOutput}


def case(name: str):
    params, oracle = CASES[name]
    y = oracle.rvs(random_state=np.random.default_rng(1))
    return DISTRIBUTIONS[name], torch.from_numpy(params), torch.from_numpy(y.astype(np.float64)), oracle


@pytest.mark.parametrize("name", CASES)
def test_likelihoods_and_quantiles_are_those_of_scipy(name):
    found, params, y, oracle = case(name)
    logs = oracle.logpmf(y.numpy()) if found.counts else oracle.logpdf(y.numpy())
    np.testing.assert_allclose(found.nll(params, y).numpy(), -logs, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.nll(params.float(), y.float()).numpy(), -logs, rtol=2e-3, atol=2e-3)
    np.testing.assert_allclose(found.mean(params).numpy(), oracle.mean(), rtol=1e-12)
    np.testing.assert_allclose(found.cdf(params, y).numpy(), oracle.cdf(y.numpy()), atol=1e-9)
    for q in (0.001, 0.1, 0.3, 0.5, 0.9, 0.999):
        expected = oracle.ppf(q)
        np.testing.assert_allclose(found.quantile(params, q).numpy(), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_crps_is_the_integral_that_defines_it(name):
    found, params, y, oracle = case(name)
    if found.counts:
        k = np.arange(60_000)[:, None]
        expected = ((oracle.cdf(k) - (y.numpy() <= k)) ** 2).sum(0)
        np.testing.assert_allclose(found.crps(params, y).numpy(), expected, rtol=1e-8, atol=1e-10)
        return
    # the mean of twice the pinball loss over all quantiles, by the middles of 20,000 equal parts
    levels = ((np.arange(20_000) + 0.5) / 20_000)[:, None]
    error = y.numpy() - oracle.ppf(levels)
    expected = 2 * np.maximum(levels * error, (levels - 1) * error).mean(0)
    np.testing.assert_allclose(found.crps(params, y).numpy(), expected, rtol=2e-3)


@pytest.mark.parametrize("name", CASES)
def test_what_a_head_writes_means_what_it_means_in_transformers(name):
    ours, theirs = DISTRIBUTIONS[name], PEERS[name]()
    assert ours.names == tuple(theirs.args_dim)
    generator = torch.Generator().manual_seed(2)
    raw = 3 * torch.randn(5, 4, len(ours.names), generator=generator)
    loc, scale = torch.randn(5, 1, generator=generator), 0.1 + torch.rand(5, 1, generator=generator)
    y = torch.randint(0, 9, (5, 4), generator=generator).float()
    peer = theirs.distribution(theirs.domain_map(*raw.clone().unbind(-1)), loc=loc, scale=scale)
    params = ours.parameters(raw, loc, scale)
    torch.testing.assert_close(ours.nll(params, y), -peer.log_prob(y), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(ours.mean(params), peer.mean, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", CASES)
def test_samples_follow_the_distribution(name):
    found, params, _, _ = case(name)
    many = params[:4, None].expand(-1, 4_000, -1)
    drawn = found.sample(many, torch.Generator().manual_seed(3))
    for q in (0.1, 0.5, 0.9):
        value = found.quantile(params[:4], q)
        share = (drawn <= value[:, None] + 1e-9).double().mean(1)
        expected = found.cdf(params[:4], value)
        # five standard deviations of a share of 4,000
        torch.testing.assert_close(share, expected, atol=5 * (0.25 / 4_000) ** 0.5, rtol=0)


@pytest.mark.parametrize("name", CASES)
def test_any_raw_number_gives_a_distribution_and_a_gradient(name):
    found = DISTRIBUTIONS[name]
    raw = torch.tensor([-1e4, -10.0, 0.0, 10.0, 1e4])[:, None].expand(-1, len(found.names)).clone().requires_grad_()
    loss = found.nll(found.parameters(raw, torch.zeros(()), torch.ones(())), torch.ones(len(raw))).sum()
    (gradient,) = torch.autograd.grad(loss, raw)
    assert torch.isfinite(loss)
    assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("name", CASES)
def test_a_mixture_has_the_mean_and_the_variance_of_its_parts(name):
    found, params, _, oracle = case(name)
    if name == "student_t":
        params = params.clone()
        params[:, 0] += 2  # so that the variance is not huge
        oracle = stats.t(params[:, 0], LOC, SCALE)
    np.testing.assert_allclose(found.variance(params).numpy(), oracle.var(), rtol=1e-9)
    parts = params[:10].view(5, 2, -1)
    mixed = found.mixed(parts, 0)
    mean, variance = found.mean(parts), found.variance(parts)
    np.testing.assert_allclose(found.mean(mixed).numpy(), mean.mean(0).numpy(), rtol=1e-9)
    expected = (variance + mean.square()).mean(0) - mean.mean(0).square()
    np.testing.assert_allclose(found.variance(mixed).numpy(), expected.numpy(), rtol=1e-6)
    same = found.mixed(params[:1].expand(7, -1), 0)
    np.testing.assert_allclose(same.numpy(), params[0].numpy(), rtol=1e-6)
