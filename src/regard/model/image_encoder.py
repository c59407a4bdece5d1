"""An image read: its cells, each told where it is, and then looked at all together or thought over one by one.

Patches have seen nothing but themselves, so blocks that look at all of them follow, as in a text (Dosovitskiy et al. 2021). Cells
of convolutions have seen what lies around them; one layer takes what a cell holds and where it is together.

Dims: B batch, Y X rows and columns of pixels, C colours, M cells, D width.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from regard.model.block import BlockConfig
from regard.model.feedforward import FeedForward
from regard.model.image_cells import Convolutions, GridPositions, Patches
from regard.model.norm import Norm
from regard.model.patterns.parse import parse_visibility
from regard.model.position import PositionKind
from regard.model.stack import Stack

Cells = Literal["cnn", "patches"]


class Think(nn.Module):
    """What a cell holds and where it is, taken together: a mean of cells then still says what is where."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = Norm(width)
        self.feedforward = FeedForward(width, 2 * width, "relu")

    def forward(self, x_BMD: Tensor) -> Tensor:
        return x_BMD + self.feedforward(self.norm(x_BMD))


class ImageEncoder(nn.Module):
    def __init__(
        self, config: BlockConfig, kind: Cells, *, patch: int, side: int, layers: int, position: PositionKind, visibility: str
    ) -> None:
        """Of `side` x `side` cells, `patch` pixels each; `layers` and `visibility` are of the blocks that look at patches."""
        super().__init__()
        self.cells = Convolutions(patch, config.width) if kind == "cnn" else Patches(patch, config.width)
        self.positions = GridPositions(position, side, config.width)
        self.dropout = nn.Dropout(config.dropout)
        self.think = Think(config.width) if kind == "cnn" else None
        self.visibility = parse_visibility(visibility)
        self.stack = Stack(config, layers, "encoder") if kind == "patches" else None

    def forward(self, image_BYXC: Tensor) -> Tensor:
        """cells_BMD, row by row."""
        x_BMD = self.dropout(self.positions(self.cells(image_BYXC)))
        if self.stack is None:
            assert self.think is not None
            return self.think(x_BMD)
        batch, cells, _ = x_BMD.shape
        return self.stack(x_BMD, self.visibility.over(cells, cells, batch=batch, device=x_BMD.device))
