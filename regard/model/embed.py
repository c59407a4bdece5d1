"""Tokens become vectors: an embedding scaled by sqrt(D), joined with the position, then dropout.

Vaswani et al. 2017, sections 3.4, 3.5 and 5.4. Joined by `add` as in
the paper, or by `concat`, which gives positions their own P of the D dimensions.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from regard.model.position import PositionKind, Positions

Join = Literal["add", "concat"]


class Embed(nn.Module):
    def __init__(
        self,
        vocabulary: int,
        width: int,
        *,
        position: PositionKind,
        join: Join,
        position_width: int,
        maximum_length: int,
        dropout: float,
    ) -> None:
        super().__init__()
        self.concat = join == "concat" and position != "none"
        self.tokens = nn.Embedding(vocabulary, width - position_width if self.concat else width)
        self.positions = Positions(position, position_width if self.concat else width, maximum_length)
        self.scale = self.tokens.embedding_dim**0.5
        self.dropout = nn.Dropout(dropout)

    def forward(self, ids_BL: Tensor, positions_L: Tensor | None = None) -> Tensor:
        """Tokens at these positions; at 0, 1, 2, ... where none are given."""
        if positions_L is None:
            self.positions.check(ids_BL.shape[1])
            positions_L = torch.arange(ids_BL.shape[1], device=ids_BL.device)
        x_BLD = self.tokens(ids_BL) * self.scale
        if (where_LD := self.positions(positions_L)) is not None:
            if self.concat:
                x_BLD = torch.cat([x_BLD, where_LD.to(x_BLD).expand(ids_BL.shape[0], -1, -1)], -1)
            else:
                x_BLD = x_BLD + where_LD
        return self.dropout(x_BLD)
