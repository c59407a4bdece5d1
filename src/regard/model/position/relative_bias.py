"""Biases by distance, added to the scores of self-attention: T5's learned buckets and ALiBi's slopes.

T5 (Raffel et al. 2020, section 2.1): one learned number for each head and bucket of distances, shared by all layers of a stack.
Half of the buckets are single distances, the others grow logarithmically up to `farthest`, and the last holds all beyond. An
encoder has half of its buckets for keys behind the query; a decoder has no such keys.
ALiBi (Press et al. 2022, section 3): minus the distance times a slope, 2^(-8/H), 2^(-16/H), ... by head; nothing is learned.
Where the number of heads is no power of 2, slopes of the next power of 2 are taken in between, as in the paper's code. A
bidirectional stack uses the distance to either side.

Dims: B batch, H heads, L queries, M keys, R distances from -farthest to farthest.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.core.config import refuse_unused
from regard.core.errors import UserError
from regard.model.position.base import Bias, Placement, Position
from regard.model.visibility import View

BUCKETS, FARTHEST = 32, 128


@dataclass(frozen=True, kw_only=True)
class RelativeSettings:
    """Recipe keys of model.position=relative."""

    buckets: int = BUCKETS  # of distances, each with a learned number for every head
    farthest: int = FARTHEST  # distance in tokens; all beyond share the last bucket

    def check_relative(self) -> None:
        refuse_unused(self, RelativeSettings, "position", "relative")
        if self.buckets < 4 or self.buckets % 2:
            raise UserError(f"model.buckets={self.buckets} must be an even number of at least 4, such as {BUCKETS}.")
        if self.farthest <= self.buckets // 2:
            raise UserError(
                f"model.farthest={self.farthest} must be more than half of model.buckets={self.buckets}, such as {FARTHEST}."
            )


def relative_bucket(distance: Tensor, *, causal: bool, buckets: int = BUCKETS, farthest: int = FARTHEST) -> Tensor:
    """Return the bucket of each distance, key position - query position: exact when short, logarithmic up to `farthest`."""
    start: Tensor | int = 0
    if causal:
        distance = (-distance).clamp(min=0)
    else:
        buckets //= 2
        start, distance = (distance > 0) * buckets, distance.abs()
    exact = buckets // 2
    far = exact + (torch.log(distance.clamp(min=1) / exact) / math.log(farthest / exact) * (buckets - exact)).long()
    return start + torch.where(distance < exact, distance, far.clamp(max=buckets - 1))


def alibi_slopes(heads: int, device: torch.device | None = None) -> Tensor:
    """Return slope_H. Computed on its device: a number from the host could not be recorded in a CUDA graph."""
    number_H, power = torch.arange(heads, device=device, dtype=torch.float32), 2 ** int(math.log2(heads))
    between_H = 4 * (2 * (number_H - power) + 1) / power
    return torch.exp2(-torch.where(number_H < power, 8 * (number_H + 1) / power, between_H))


class ByDistance(Placement):
    """A bias that only the distance between two positions and the head decide: computed once for all layers."""

    def __init__(
        self, view: View, heads: int, value: Callable[[Tensor, Tensor], Tensor], table_of: Callable[[Tensor], Tensor]
    ) -> None:
        """`value(h, distance)` is for single pairs; `table_of(distances_BLM)` returns bias_BHLM of all."""
        at_BL, at_BM = view.positions()

        def at(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            return value(h, at_BM[b * (len(at_BM) > 1), j] - at_BL[b * (len(at_BL) > 1), i])

        shape = (max(len(at_BL), len(at_BM)), heads, at_BL.shape[1], at_BM.shape[1])
        whole = None
        if not view.by_blocks:  # now, not inside a layer: all layers share it, also those that are computed again for gradients
            dense_BHLM = table_of(at_BM[:, None, :] - at_BL[:, :, None])
            whole = lambda: dense_BHLM  # noqa: E731
        self.found = Bias(at, shape, at_BL.device, whole)

    def bias(self, q_BHLK: Tensor, k_BHMK: Tensor) -> Bias:
        return self.found


class RelativeBias(Position):
    def __init__(self, heads: int, *, causal: bool, buckets: int = BUCKETS, farthest: int = FARTHEST) -> None:
        super().__init__()
        self.causal, self.buckets, self.farthest = causal, buckets, farthest
        self.table = nn.Embedding(buckets, heads)

    def bucket(self, distance: Tensor) -> Tensor:
        return relative_bucket(distance, causal=self.causal, buckets=self.buckets, farthest=self.farthest)

    def over(self, view: View) -> Placement:
        farthest = self.farthest
        every_R = torch.arange(-farthest, farthest + 1, device=self.table.weight.device)
        value_RH = self.table(self.bucket(every_R))  # beyond `farthest` the bucket is the same
        least, most = every_R[0], every_R[-1]  # tensors: FlexAttention cannot compile a number that varies between calls

        def value(h: Tensor, distance: Tensor) -> Tensor:
            return value_RH[distance.clamp(least, most) + most, h]

        def table_of(distance_BLM: Tensor) -> Tensor:
            return nn.functional.embedding(distance_BLM.clamp(-farthest, farthest) + farthest, value_RH).permute(0, 3, 1, 2)

        return ByDistance(view, value_RH.shape[1], value, table_of)


class ALiBi(Position):
    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads

    def over(self, view: View) -> Placement:
        slope_H = alibi_slopes(self.heads, view.device)

        def value(h: Tensor, distance: Tensor) -> Tensor:
            return -slope_H[h] * distance.abs()

        return ByDistance(view, self.heads, value, lambda distance_BLM: -slope_H[:, None, None] * distance_BLM.abs()[:, None])
