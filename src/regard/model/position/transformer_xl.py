"""Transformer-XL's positions: a query is compared with the content of a key and with its distance.

Dai et al. 2019, section 3.3: the score of query i and key j is (q_i + u) . k_j + (q_i + v) . W_R R_{i-j}, with R the sinusoidal
vector of a distance and u, v, W_R learned. q . k is the mixer's; the rest is a bias, u . k_j + (q_i + v) . r_{i-j}, divided by
the root of the head width where scores are. u, v and W_R are a layer's own (`untie_r` of the paper's code).

Differs from the paper in: a bidirectional stack uses negative distances, too. Segment memory is another part.

Dims: B batch, H heads, L queries, M keys, K head width, D width, R distances.
"""

from __future__ import annotations

from copy import copy

import torch
from torch import Tensor, nn

from regard.model.layers import Linear
from regard.model.position.base import Bias, Placement, Position
from regard.model.visibility import View


class DistanceScores(nn.Module):
    """Parameters of one layer: u (content), v (position), W_R."""

    def __init__(self, width: int, heads: int, head_width: int) -> None:
        super().__init__()
        self.content_HK = nn.Parameter(torch.zeros(heads, head_width))
        self.position_HK = nn.Parameter(torch.zeros(heads, head_width))
        self.project = Linear(width, heads * head_width, bias=False)


class TransformerXL(Position):
    def __init__(self, width: int, heads: int, head_width: int, layers: int, scaled: bool = True) -> None:
        super().__init__()
        self.width, self.scale = width, head_width**-0.5 if scaled else 1.0
        self.layers = nn.ModuleList(DistanceScores(width, heads, head_width) for _ in range(layers))

    def over(self, view: View) -> Placement:
        return _Distances(self, view)

    def vectors(self, distance_R: Tensor) -> Tensor:
        """Return the sinusoidal vectors_RD of distances: sines, then cosines, as in the paper's code."""
        rate_K = 10_000.0 ** (-torch.arange(0, self.width, 2, device=distance_R.device).double() / self.width)
        angle_RK = distance_R[:, None] * rate_K.float()
        return torch.cat([angle_RK.sin(), angle_RK.cos()], -1)[:, : self.width]


class _Distances(Placement):
    def __init__(self, scheme: TransformerXL, view: View) -> None:
        self.scheme, self.n = scheme, 0
        self.at, self.most = view.positions(), view.farthest()
        every_R = torch.arange(-self.most, self.most + 1, device=view.device)
        self.ends = every_R[0], every_R[-1]  # tensors: FlexAttention cannot compile a number that varies between calls
        self.r_RD = scheme.vectors(every_R.float())

    def layer(self, n: int) -> Placement:
        own = copy(self)
        own.n = n
        return own

    def bias(self, q_BHLK: Tensor, k_BHMK: Tensor) -> Bias:
        learned, most, (at_BL, at_BM) = self.scheme.layers[self.n], self.most, self.at
        nearest, farthest = self.ends
        assert isinstance(learned, DistanceScores)
        heads = learned.content_HK.shape[0]
        r_HKR = learned.project(self.r_RD.to(learned.project.weight.dtype)).unflatten(-1, (heads, -1)).permute(1, 2, 0)
        content_BHM = torch.einsum("hk,bhmk->bhm", learned.content_HK.to(k_BHMK.dtype), k_BHMK) * self.scheme.scale
        by_distance_BHLR = (q_BHLK + learned.position_HK.to(q_BHLK.dtype)[:, None]) @ r_HKR.to(q_BHLK.dtype) * self.scheme.scale

        def at(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            distance = at_BL[b * (len(at_BL) > 1), i] - at_BM[b * (len(at_BM) > 1), j]
            return content_BHM[b, h, j] + by_distance_BHLR[b, h, i, distance.clamp(nearest, farthest) + farthest]

        def whole() -> Tensor:
            distance_B1LM = (at_BL[:, :, None] - at_BM[:, None])[:, None].clamp(-most, most) + most
            batch, _, length, _ = q_BHLK.shape
            index_BHLM = distance_B1LM.expand(batch, heads, length, -1)
            return content_BHM[:, :, None] + by_distance_BHLR.gather(3, index_BHLM)

        return Bias(at, (*q_BHLK.shape[:3], k_BHMK.shape[2]), q_BHLK.device, whole)
