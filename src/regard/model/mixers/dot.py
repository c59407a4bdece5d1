"""Two scores of Luong et al. 2015, equation 8: `dot`, s^T h, and `bilinear`, s^T W h, which the paper calls general.

Neither divides by sqrt(K) as `softmax` does. So queries are multiplied by what it will divide by, and every kernel and every
visibility that serves it serves these.

Differs from the paper in nothing for one head; several share a W, since what a head has of its own are its projections.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.model.mixers.softmax import Softmax
from regard.model.visibility import View


class Dot:
    folds = None

    def __init__(self) -> None:
        self.softmax = Softmax()

    def mix(self, q_BHLK: Tensor, k_BHMK: Tensor, v_BHMK: Tensor, view: View, dropout: float = 0.0) -> Tensor:
        return self.softmax.mix(_undivided(q_BHLK), k_BHMK, v_BHMK, view, dropout)

    def weights(self, q_BHLK: Tensor, k_BHMK: Tensor, sees_BHLM: Tensor) -> Tensor:
        return self.softmax.weights(_undivided(q_BHLK), k_BHMK, sees_BHLM)


class Bilinear(nn.Module):
    folds = None

    def __init__(self, head_width: int) -> None:
        super().__init__()
        self.between_KK = nn.Parameter(torch.empty(head_width, head_width))
        self.dot = Dot()

    def mix(self, q_BHLK: Tensor, k_BHMK: Tensor, v_BHMK: Tensor, view: View, dropout: float = 0.0) -> Tensor:
        return self.dot.mix(self._turned(q_BHLK), k_BHMK, v_BHMK, view, dropout)

    def weights(self, q_BHLK: Tensor, k_BHMK: Tensor, sees_BHLM: Tensor) -> Tensor:
        return self.dot.weights(self._turned(q_BHLK), k_BHMK, sees_BHLM)

    def _turned(self, q_BHLK: Tensor) -> Tensor:
        return q_BHLK @ self.between_KK.to(q_BHLK.dtype)


def _undivided(q_BHLK: Tensor) -> Tensor:
    return q_BHLK * q_BHLK.shape[-1] ** 0.5
