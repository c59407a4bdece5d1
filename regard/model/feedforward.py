"""The position-wise feed-forward network: max(0, x W_1 + b_1) W_2 + b_2 (Vaswani et al. 2017, equation 2), or with GELU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

Activation = Literal["relu", "gelu"]
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu}


class FeedForward(nn.Module):
    def __init__(self, width: int, inner: int, activation: Activation) -> None:
        super().__init__()
        self.expand = nn.Linear(width, inner)
        self.contract = nn.Linear(inner, width)
        self.activation = ACTIVATIONS[activation]

    def forward(self, x_BLD: Tensor) -> Tensor:
        return self.contract(self.activation(self.expand(x_BLD)))
