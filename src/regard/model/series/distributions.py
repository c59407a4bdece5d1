"""Distributions of a value that is forecast: what the numbers of a head mean, how likely a value is, and quantiles.

    normal               loc, scale                 y ~ Normal(loc, scale)
    student_t            df, loc, scale             y ~ loc + scale T(df), with heavy tails; df > 2, so that the variance exists
    negative_binomial    total_count, logits        y = 0, 1, 2, ...: failures before `total_count` successes, p = sigmoid(logits)

A head writes raw numbers of any size. `parameters` makes parameters of them, by squareplus(x) = (x + sqrt(x^2 + 4)) / 2 > 0, in
units of the data: y = loc + scale y', where y' has the distribution that the raw numbers describe. Counts cannot be shifted, so
for the negative binomial the mean is multiplied by `scale`. The order of the numbers and both maps are those of transformers'
`time_series_utils` (after GluonTS, Alexandrov et al. 2020).

Dims: P parameters, at the end of every tensor of parameters.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.model.series.incomplete_beta import incomplete_beta

TINY = torch.finfo(torch.float32).eps


def squareplus(x: Tensor) -> Tensor:
    """Return (x + sqrt(x^2 + 4)) / 2, which is above 0 and grows as x does."""
    return (x + torch.sqrt(x.square() + 4.0)) / 2.0


class Distribution(ABC):
    """A distribution of each value; its parameters are the last axis of a tensor."""

    names: ClassVar[tuple[str, ...]]  # of the parameters, in their order
    counts: ClassVar[bool] = False  # whether values are whole numbers from 0 on

    @abstractmethod
    def parameters(self, raw_P: Tensor, loc: Tensor, scale: Tensor) -> Tensor:
        """Return parameters in units of the data, of raw numbers that describe (y - loc) / scale."""

    @abstractmethod
    def nll(self, params_P: Tensor, y: Tensor) -> Tensor:
        """Return the negative log-likelihood of each value."""

    @abstractmethod
    def mean(self, params_P: Tensor) -> Tensor:
        """Return the mean of each value."""

    @abstractmethod
    def variance(self, params_P: Tensor) -> Tensor:
        """Return the variance of each value."""

    @abstractmethod
    def mixed(self, params_P: Tensor, dim: int) -> Tensor:
        """Return the distribution of this kind with the mean and the variance of an equal mixture along an axis."""

    def _moments(self, params_P: Tensor, dim: int) -> tuple[Tensor, Tensor]:
        """Return the mean and the variance of an equal mixture along an axis: that of a mean adds to the mean of variances."""
        means = self.mean(params_P)
        return means.mean(dim), self.variance(params_P).mean(dim) + means.var(dim, correction=0)

    @abstractmethod
    def cdf(self, params_P: Tensor, y: Tensor) -> Tensor:
        """Return P(Y <= y) in float64."""

    @abstractmethod
    def quantile(self, params_P: Tensor, q: float) -> Tensor:
        """Return the smallest value that Y does not exceed with a probability of q."""

    @abstractmethod
    def crps(self, params_P: Tensor, y: Tensor) -> Tensor:
        """Return the continuous ranked probability score of each value, the integral of (P(Y <= x) - [y <= x])^2, exactly."""

    @abstractmethod
    def sample(self, params_P: Tensor, generator: torch.Generator) -> Tensor:
        """Draw a value of each."""


class Normal(Distribution):
    names = ("loc", "scale")

    def parameters(self, raw_P: Tensor, loc: Tensor, scale: Tensor) -> Tensor:
        raw_loc, raw_scale = raw_P.float().unbind(-1)
        return torch.stack([loc + scale * raw_loc, scale * squareplus(raw_scale).clamp_min(TINY)], -1)

    def nll(self, params_P: Tensor, y: Tensor) -> Tensor:
        loc, scale = params_P.unbind(-1)
        return 0.5 * ((y - loc) / scale).square() + scale.log() + 0.5 * math.log(2 * math.pi)

    def mean(self, params_P: Tensor) -> Tensor:
        return params_P[..., 0]

    def variance(self, params_P: Tensor) -> Tensor:
        return params_P[..., 1].square()

    def mixed(self, params_P: Tensor, dim: int) -> Tensor:
        mean, variance = self._moments(params_P, dim)
        return torch.stack([mean, variance.sqrt()], -1)

    def cdf(self, params_P: Tensor, y: Tensor) -> Tensor:
        loc, scale = params_P.double().unbind(-1)
        return torch.special.ndtr((y - loc) / scale)

    def quantile(self, params_P: Tensor, q: float) -> Tensor:
        loc, scale = params_P.unbind(-1)
        return loc + scale * torch.special.ndtri(torch.tensor(q, dtype=torch.float64)).item()

    def crps(self, params_P: Tensor, y: Tensor) -> Tensor:
        """Gneiting & Raftery 2007, equation 5: sigma (z (2 F(z) - 1) + 2 f(z) - 1 / sqrt(pi))."""
        loc, scale = params_P.double().unbind(-1)
        z = (y - loc) / scale
        density = torch.exp(-0.5 * z.square()) / math.sqrt(2 * math.pi)
        return scale * (z * (2 * torch.special.ndtr(z) - 1) + 2 * density - 1 / math.sqrt(math.pi))

    def sample(self, params_P: Tensor, generator: torch.Generator) -> Tensor:
        loc, scale = params_P.unbind(-1)
        return loc + scale * torch.randn(loc.shape, generator=generator, device=loc.device)


class StudentT(Distribution):
    names = ("df", "loc", "scale")
    NODES: ClassVar[int] = 48  # of the polynomial in 1 / df that gives a quantile

    def parameters(self, raw_P: Tensor, loc: Tensor, scale: Tensor) -> Tensor:
        raw_df, raw_loc, raw_scale = raw_P.float().unbind(-1)
        df = 2.0 + squareplus(raw_df)
        return torch.stack([df, loc + scale * raw_loc, scale * squareplus(raw_scale).clamp_min(TINY)], -1)

    def nll(self, params_P: Tensor, y: Tensor) -> Tensor:
        df, loc, scale = params_P.unbind(-1)
        z = (y - loc) / scale
        constant = torch.lgamma(0.5 * df) - torch.lgamma(0.5 * (df + 1)) + 0.5 * (df * math.pi).log() + scale.log()
        return constant + 0.5 * (df + 1) * torch.log1p(z.square() / df)

    def mean(self, params_P: Tensor) -> Tensor:
        return params_P[..., 1]

    def variance(self, params_P: Tensor) -> Tensor:
        df, _, scale = params_P.unbind(-1)
        return scale.square() * df / (df - 2)

    def mixed(self, params_P: Tensor, dim: int) -> Tensor:
        """As heavy in its tails as the heaviest of those that are mixed."""
        df = params_P[..., 0].amin(dim)
        mean, variance = self._moments(params_P, dim)
        return torch.stack([df, mean, (variance * (df - 2) / df).sqrt()], -1)

    def cdf(self, params_P: Tensor, y: Tensor) -> Tensor:
        df, loc, scale = params_P.double().unbind(-1)
        return _t_cdf(df, (y - loc) / scale)

    def quantile(self, params_P: Tensor, q: float) -> Tensor:
        """Evaluate the quantile of df, which is smooth in 1 / df, by its polynomial at Chebyshev's nodes."""
        df, loc, scale = params_P.unbind(-1)
        if q == 0.5:
            return loc
        angles = (torch.arange(self.NODES, dtype=torch.float64) + 0.5) * (math.pi / self.NODES)
        inverse_N = (angles.cos() + 1) / 4  # of df, between 0 and 1/2
        values_N = _t_quantile(1 / inverse_N, q)
        weights_N = angles.sin() * torch.where(torch.arange(self.NODES) % 2 == 0, 1.0, -1.0)
        inverse_N, values_N, weights_N = (x.to(df.device) for x in (inverse_N, values_N, weights_N))
        gap_N = (1 / df.double())[..., None] - inverse_N
        share_N = weights_N / torch.where(gap_N == 0, torch.full_like(gap_N, 1e-30), gap_N)
        return loc + scale * ((share_N * values_N).sum(-1) / share_N.sum(-1)).to(scale.dtype)

    def crps(self, params_P: Tensor, y: Tensor) -> Tensor:
        """Jordan, Krueger & Lerch 2019, appendix A.2."""
        df, loc, scale = params_P.double().unbind(-1)
        z = (y - loc) / scale
        density = torch.exp(-self.nll(torch.stack([df, torch.zeros_like(df), torch.ones_like(df)], -1), z))
        ratio = torch.exp(_log_beta(torch.full_like(df, 0.5), df - 0.5) - 2 * _log_beta(torch.full_like(df, 0.5), 0.5 * df))
        spread = 2 * df.sqrt() / (df - 1) * ratio
        return scale * (z * (2 * _t_cdf(df, z) - 1) + 2 * density * (df + z.square()) / (df - 1) - spread)

    def sample(self, params_P: Tensor, generator: torch.Generator) -> Tensor:
        df, loc, scale = params_P.unbind(-1)
        chi = 2 * torch._standard_gamma(0.5 * df, generator=generator)
        return loc + scale * torch.randn(loc.shape, generator=generator, device=loc.device) * (df / chi).sqrt()


def _log_beta(a: Tensor, b: Tensor) -> Tensor:
    return torch.lgamma(a) + torch.lgamma(b) - torch.lgamma(a + b)


def _t_cdf(df: Tensor, z: Tensor) -> Tensor:
    tail = 0.5 * incomplete_beta(0.5 * df, torch.full_like(df, 0.5), df / (df + z.square()))
    return torch.where(z < 0, tail, 1 - tail)


def _t_quantile(df: Tensor, q: float) -> Tensor:
    """Halve an interval until it has one number of float64."""
    low, high = torch.full_like(df, -1.0), torch.full_like(df, 1.0)
    for _ in range(1_000):
        if bool(((_t_cdf(df, low) < q) & (_t_cdf(df, high) > q)).all()):
            break
        low, high = 2 * low, 2 * high
    for _ in range(80):
        middle = (low + high) / 2
        above = _t_cdf(df, middle) > q
        low, high = torch.where(above, low, middle), torch.where(above, middle, high)
    return (low + high) / 2


class NegativeBinomial(Distribution):
    names = ("total_count", "logits")
    counts = True
    ANGLES: ClassVar[int] = 160  # of the integral that CRPS has

    def parameters(self, raw_P: Tensor, loc: Tensor, scale: Tensor) -> Tensor:
        raw_count, logits = raw_P.float().unbind(-1)
        return torch.stack([squareplus(raw_count).clamp_min(TINY), logits + scale.log()], -1)

    def nll(self, params_P: Tensor, y: Tensor) -> Tensor:
        count, logits = params_P.unbind(-1)
        likelihood = count * F.logsigmoid(-logits) + y * F.logsigmoid(logits)
        return torch.lgamma(count) + torch.lgamma(1 + y) - torch.lgamma(count + y) - likelihood

    def mean(self, params_P: Tensor) -> Tensor:
        count, logits = params_P.unbind(-1)
        return count * logits.exp()

    def variance(self, params_P: Tensor) -> Tensor:
        logits = params_P[..., 1]
        return self.mean(params_P) * (1 + logits.exp())

    def mixed(self, params_P: Tensor, dim: int) -> Tensor:
        mean, variance = self._moments(params_P, dim)
        odds = (variance / mean.clamp_min(TINY) - 1).clamp_min(TINY)
        return torch.stack([mean / odds, odds.log()], -1)

    def cdf(self, params_P: Tensor, y: Tensor) -> Tensor:
        count, logits = params_P.double().unbind(-1)
        return _counts_cdf(count, logits, y.double())

    def quantile(self, params_P: Tensor, q: float) -> Tensor:
        """Halve an interval of whole numbers until it has one."""
        count, logits = params_P.double().unbind(-1)
        low, high = torch.full_like(count, -1.0), count * logits.exp() + 1.0
        high = high.ceil()
        while bool((short := _counts_cdf(count, logits, high) < q).any()):
            low, high = torch.where(short, high, low), torch.where(short, 2 * high, high)
        while bool((high - low > 1).any()):
            middle = ((low + high) / 2).floor()
            enough = _counts_cdf(count, logits, middle) >= q
            low, high = torch.where(enough, low, middle), torch.where(enough, middle, high)
        return high.to(params_P.dtype)

    def crps(self, params_P: Tensor, y: Tensor) -> Tensor:
        """Wei & Held 2014: y (2 F(y) - 1) - m (2 F'(y - 1) - 1) - d, with m the mean and F' of one more success.

        d is half the mean distance of two draws, m (1 + s) 2F1(r + 1, 1/2; 2; -4 s (1 + s)) with s = exp(logits). Euler's
        integral of the hypergeometric function has its peaks at its two ends, so the tanh-sinh rule takes it.
        """
        count, logits = params_P.double().unbind(-1)
        y, odds = y.double(), logits.exp()
        mean, flat = count * odds, 1 / (1 + 4 * odds * (1 + odds))
        at_A = torch.linspace(-3.2, 3.2, self.ANGLES, dtype=torch.float64, device=count.device)
        share_A = torch.sigmoid(math.pi * at_A.sinh())
        step_A = (6.4 / (self.ANGLES - 1)) * math.pi * at_A.cosh() * share_A * (1 - share_A)
        squares_A = torch.sin(share_A * (math.pi / 2)).square()
        bent_A = squares_A + flat[..., None] * (1 - squares_A)
        integral = 2 * flat.sqrt() * (bent_A ** (count[..., None] - 1) * squares_A * step_A).sum(-1)
        below = _counts_cdf(count, logits, y)
        shifted = _counts_cdf(count + 1, logits, y - 1)
        return y * (2 * below - 1) - mean * (2 * shifted - 1) - mean * (1 + odds) * integral

    def sample(self, params_P: Tensor, generator: torch.Generator) -> Tensor:
        count, logits = params_P.unbind(-1)
        return torch.poisson(torch._standard_gamma(count, generator=generator) * logits.exp(), generator=generator)


def _counts_cdf(count: Tensor, logits: Tensor, y: Tensor) -> Tensor:
    y = y.floor()
    found = incomplete_beta(count, y.clamp_min(0) + 1, torch.sigmoid(-logits))
    return torch.where(y < 0, torch.zeros_like(found), found)


DISTRIBUTIONS: dict[str, Distribution] = {
    "normal": Normal(),
    "student_t": StudentT(),
    "negative_binomial": NegativeBinomial(),
}
