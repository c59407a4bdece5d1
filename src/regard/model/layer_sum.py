"""One vector of each word out of all layers: their sum, weighted by what a task has learned (Peters et al. 2018, equation 1).

    ELMo_k = gamma * sum over layers j of s_j h_kj,    s = softmax(w)

Weights and scale are the task's own: the layers themselves may stay as they are. Both start where the sum is a plain mean.

Dims: N layers.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class LayerSum(nn.Module):
    def __init__(self, layers: int) -> None:
        super().__init__()
        self.weights_N = nn.Parameter(torch.zeros(layers))
        self.scale = nn.Parameter(torch.ones(()))

    @property
    def shares_N(self) -> Tensor:
        """How much of each layer is taken; they sum to one."""
        return self.weights_N.softmax(0)

    def forward(self, x_NBLD: Tensor) -> Tensor:
        return self.scale.to(x_NBLD) * torch.einsum("n,nbld->bld", self.shares_N.to(x_NBLD), x_NBLD)
