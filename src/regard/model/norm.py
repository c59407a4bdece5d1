"""Layer normalisation (Ba et al. 2016): each vector to mean 0 and variance 1, then scaled and shifted by what is learned.

Or each feature, over a batch (Ioffe & Szegedy 2015), and where nothing is learned by what batches had on the average.

Summed in float32 whatever the vectors are, and answered in their own type: a bf16 residual stream stays one.
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Norm(nn.LayerNorm):
    def forward(self, x_BLD: Tensor) -> Tensor:
        return super().forward(x_BLD).to(x_BLD.dtype)


class RMSNorm(nn.RMSNorm):
    """Each vector divided by its root mean square, then scaled by what is learned (Zhang & Sennrich 2019): no mean, no shift."""

    def forward(self, x_BLD: Tensor) -> Tensor:
        normed_BLD = F.rms_norm(x_BLD.float(), self.normalized_shape, None, self.eps)
        return self.weight.to(x_BLD.dtype) * normed_BLD.to(x_BLD.dtype)


NormKind = Literal["layer", "rms"]
NORMS: dict[NormKind, type[Norm] | type[RMSNorm]] = {"layer": Norm, "rms": RMSNorm}


class BatchNorm(nn.Module):
    """As torch's, without a scale and a shift of its own, and some of a batch may be left out.

    Half of what is kept is the last batch's: while weights change fast, the mean of ten is old, and validation with it.
    """

    KEPT, EPSILON = 0.5, 1e-5

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("mean_D", torch.zeros(width))
        self.register_buffer("variance_D", torch.ones(width))
        self.mean_D: Tensor
        self.variance_D: Tensor

    def forward(self, x_ND: Tensor, counts_N: Tensor) -> Tensor:
        """`counts_N` is true of what the batch is made of; the others are measured by it."""
        exact_ND, mean_D, variance_D = x_ND.float(), self.mean_D, self.variance_D
        if self.training:
            share_N1 = (counts_N / counts_N.sum().clamp(min=1))[:, None]
            mean_D = (share_N1 * exact_ND).sum(0)
            variance_D = (share_N1 * (exact_ND - mean_D).square()).sum(0)
            with torch.no_grad():
                self.mean_D.mul_(self.KEPT).add_(mean_D, alpha=1 - self.KEPT)
                self.variance_D.mul_(self.KEPT).add_(variance_D, alpha=1 - self.KEPT)
        return ((exact_ND - mean_D) * (variance_D + self.EPSILON).rsqrt()).to(x_ND.dtype)
