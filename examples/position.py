"""A position scheme of your own: a bias that falls with the logarithm of the distance (KERPLE, Chi et al. 2022, but not learned).

    regard train translate model.position=log-distance --plugin examples/position.py --out runs/log

`over` gets the queries and keys of one pass and returns what attention adds to its scores. `ByDistance` makes that of a function
of head and distance, for packed rows, sparse patterns, cached decoding and fused kernels alike.
"""

import torch
from torch import Tensor

import regard
from regard.attention import ByDistance, Placement, Position, View


class LogDistance(Position):
    """Add -2^-h log(1 + distance) to the scores of head h."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads

    def over(self, view: View) -> Placement:
        slope_H = 2.0 ** -torch.arange(self.heads, device=view.device)

        def value(h: Tensor, distance: Tensor) -> Tensor:
            return -slope_H[h] * distance.abs().log1p()

        return ByDistance(view, self.heads, value, lambda d_BLM: -slope_H[:, None, None] * d_BLM.abs().log1p()[:, None])


regard.register.position("log-distance", lambda config, layers, causal: LogDistance(config.heads))
