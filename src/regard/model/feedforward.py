"""The position-wise feed-forward network: max(0, x W_1 + b_1) W_2 + b_2 (Vaswani et al. 2017, equation 2), or with GELU.

Gated (Shazeer 2020): the activation of a second projection scales the first, contract(activation(gate x) * expand x); with SiLU
that is LLaMA's SwiGLU, with tanh-GELU T5 1.1's GEGLU.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from regard.model.linear import Linear

Activation = Literal["relu", "gelu", "gelu_tanh", "silu"]  # gelu_tanh is GPT-2's approximation of gelu
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "silu": F.silu,
}
FeedForwardKind = Literal["plain", "gated"]


class FeedForward(nn.Module):
    def __init__(self, width: int, inner: int, activation: Activation, *, gated: bool = False, bias: bool = True) -> None:
        super().__init__()
        self.expand = Linear(width, inner, bias=bias)
        self.gate = Linear(width, inner, bias=bias) if gated else None
        self.contract = Linear(inner, width, bias=bias)
        self.activation = ACTIVATIONS[activation]

    def forward(self, x_BLD: Tensor) -> Tensor:
        if self.gate is None:
            return self.contract(self.activation(self.expand(x_BLD)))
        return self.contract(self.activation(self.gate(x_BLD)) * self.expand(x_BLD))
