"""Layer normalisation (Ba et al. 2016): each vector to mean 0 and variance 1, then scaled and shifted by what is learned.

Summed in float32 whatever the vectors are, and answered in their own type: a bf16 residual stream stays one.
"""

from __future__ import annotations

from torch import Tensor, nn


class Norm(nn.LayerNorm):
    def forward(self, x_BLD: Tensor) -> Tensor:
        return super().forward(x_BLD).to(x_BLD.dtype)
