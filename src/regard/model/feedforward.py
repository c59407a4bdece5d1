"""The position-wise feed-forward network: max(0, x W_1 + b_1) W_2 + b_2 (Vaswani et al. 2017, equation 2), or with GELU."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from regard.model.linear import Linear

Activation = Literal["relu", "gelu", "gelu_tanh"]  # the last is GPT-2's approximation of the second
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
}


class FeedForward(nn.Module):
    def __init__(self, width: int, inner: int, activation: Activation) -> None:
        super().__init__()
        self.expand = Linear(width, inner)
        self.contract = Linear(inner, width)
        self.activation = ACTIVATIONS[activation]

    def extra_repr(self) -> str:
        return f"D={self.expand.in_features} F={self.expand.out_features}"

    def forward(self, x_BLD: Tensor) -> Tensor:
        return self.contract(self.activation(self.expand(x_BLD)))
