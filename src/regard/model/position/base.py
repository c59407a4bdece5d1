"""The hooks of a position scheme: add vectors to the input, rotate queries and keys, or add a bias to the scores.

`Position` is the module with what is learned. `Placement` is the same for one pass, with the positions of its queries and keys
known: a stack asks for it once, before its layers run. `Bias` is what one attention adds to its scores, dense or by index.

Dims: B batch, L queries, M keys, D width, H heads, K head width.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from regard.model.visibility import View

ScoreBias = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


class LearnedTable(NamedTuple):
    """A bias that is one learned number for each head and distance, for a kernel that sums its gradient by distance."""

    table_HR: Tensor  # of the distances -R // 2 to R // 2
    at: ScoreBias  # the same numbers as `Bias.at`, without gradients


@dataclass(frozen=True, eq=False)
class Bias:
    """Numbers added to scores_BHLM. Kernels take them dense, or ask for single ones by index, as FlexAttention does."""

    at: ScoreBias  # (b, h, i, j) -> numbers; index tensors of any shapes that broadcast, i and j in rows and columns
    shape: tuple[int, int, int, int]  # B or 1, H, L, M
    device: torch.device
    whole: Callable[[], Tensor] | None = None  # all of them, by something faster than `at`
    fixed_shapes: bool = False  # does `at` read a tensor with gradients whose sizes follow the lengths? See `Position`
    learned: LearnedTable | None = None  # where that is all of the bias
    scores: Tensor | None = None  # the sum of scores and bias, where it is known already

    def dense(self) -> Tensor:
        """Return bias_BHLM; dimensions of size 1 broadcast."""
        if self.whole is not None:
            return self.whole()
        b, h, i, j = (torch.arange(n, device=self.device) for n in self.shape)
        return self.at(b[:, None, None, None], h[:, None, None], i[:, None], j)

    def rows(self, rows_R: Tensor, heads: Tensor) -> Tensor:
        """Return bias_BHRM of some queries and heads, for a probe."""
        b, _, _, j = (torch.arange(n, device=rows_R.device) for n in self.shape)
        return self.at(b[:, None, None, None], heads[:, None, None], rows_R[:, None], j)


class Placement:
    """A scheme with the positions of one pass. The default does nothing."""

    rotates = False  # does `rotate` change anything?
    turns: tuple[Tensor, Tensor] | None = None  # cos_B1LK and sin_B1LK of `rotate`, which turns coordinate i with i + K / 2
    scores: Bias | None = None  # the bias, where it is the same in all layers and depends on neither queries nor keys

    def layer(self, n: int) -> Placement:
        """Return what the n-th layer uses; most schemes are the same in every layer."""
        return self

    def rotate(self, x_BHLK: Tensor) -> Tensor:
        """Return the queries, or the keys of the same tokens, with their position applied."""
        return x_BHLK

    def bias(self, q_BHLK: Tensor, k_BHMK: Tensor) -> Bias | None:
        """Return what is added to the scores of these queries and keys, or None."""
        return None


class Position(nn.Module):
    """Base class of all schemes: each implements the hooks that it needs."""

    def embed(self, at_BL: Tensor) -> Tensor | None:
        """Return vectors_BLD to add to the input, or to concatenate with it, or None."""
        return None

    def forward(self, at_BL: Tensor) -> Tensor | None:
        return self.embed(at_BL)

    fixed_shapes: bool = False
    """Does the bias read a tensor with gradients whose sizes follow the lengths? FlexAttention compiles its gradient for fixed
    sizes only (torch 2.11 to 2.13), so each length is then compiled by itself."""
    fused: bool = False  # do decoding kernels serve it? Then `turns` and `scores` are all that its placement does.
    farthest: int = 128  # the distance up to which a bias by distance is worth showing

    def by_distance(self, distance_R: Tensor) -> list[Tensor]:
        """Return bias_HR of these distances, key position - query position: one for all layers, or one a layer; none without.

        Of a bias that reads queries or keys as well, it is the part that does not.
        """
        return []

    def over(self, view: View) -> Placement | None:
        """Return the scheme for the queries and keys of one pass, or None where it does nothing inside attention."""
        return None
