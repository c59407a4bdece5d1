"""Where a token of an image stands: vectors added to it, or rotations of queries and keys, for a grid of any size.

    learned       a vector for every cell of the grid that a model is trained with           Dosovitskiy et al. 2021
    sinusoidal    waves over the column in half of the width, over the row in the other      He et al. 2022 (MAE)
    rotary        half of the pairs of a head turn with the row, half with the column        Su et al. 2021, in two dimensions
    none

Larger and smaller images: vectors of the trained grid are interpolated as a picture is, by cubics over 4 x 4 neighbours
(Dosovitskiy et al. 2021, section 3.2); coordinates of a rotation are stretched, so that an image spans what it spanned while the
model was trained. Cells are compared by their centres (`align_corners` False). Without `antialias` a grid that shrinks is
sampled, as transformers has it; with it neighbours are averaged, as timm has it. Learned tokens in front have vectors of their
own outside of the grid, zeros where vectors are waves, and are never turned.

Dims: M tokens, G cells of a grid, D width, L queries, K head width.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.model.embedding import Sinusoidal
from regard.model.position.base import Placement, Position
from regard.model.position.relative import Rotation
from regard.model.visibility import View


class Grid(NamedTuple):
    rows: int
    columns: int

    @property
    def cells(self) -> int:
        return self.rows * self.columns


class GridVectors(nn.Module):
    """vectors_MD of the tokens of a grid, `extra` learned ones first; None where there are none to add."""

    table_MD: nn.Parameter

    def __init__(self, kind: str, width: int, grid: Grid, extra: int, antialias: bool = False) -> None:
        super().__init__()
        self.kind, self.grid, self.extra, self.antialias = kind, grid, extra, antialias
        if kind == "learned":
            self.table_MD = nn.Parameter(torch.zeros(extra + grid.cells, width))
        self.waves = Sinusoidal(width // 2, halves=True) if kind == "sinusoidal" else None

    def forward(self, grid: Grid) -> Tensor | None:
        table_MD: Tensor
        if self.kind == "learned":
            table_MD = self.table_MD
        elif self.waves is not None:
            table_MD = self._waves(self.waves)
        else:
            return None
        if grid == self.grid:
            return table_MD
        return torch.cat([table_MD[: self.extra], resized(table_MD[self.extra :], self.grid, grid, self.antialias)])

    def _waves(self, waves: Sinusoidal) -> Tensor:
        cells_G = torch.arange(self.grid.cells, device=waves.even_K.device)
        columns_GD, rows_GD = waves.embed(cells_G % self.grid.columns), waves.embed(cells_G // self.grid.columns)
        return F.pad(torch.cat([columns_GD, rows_GD], -1), (0, 0, self.extra, 0))


def resized(table_GD: Tensor, trained: Grid, grid: Grid, antialias: bool = False) -> Tensor:
    """Return the vectors of a grid of another size, by cubic interpolation."""
    picture_1DYX = table_GD.unflatten(0, trained).permute(2, 0, 1)[None].float()
    found_1DYX = F.interpolate(picture_1DYX, size=tuple(grid), mode="bicubic", align_corners=False, antialias=antialias)
    return found_1DYX[0].permute(1, 2, 0).flatten(0, 1).to(table_GD.dtype)


def coordinates(grid: Grid, trained: Grid, extra: int, device: torch.device) -> Tensor:
    """Return at_M2: row and column of each cell's centre, counted from 1 in cells of the trained grid; 0 of extra tokens."""
    sides = [(torch.arange(now, device=device) + 0.5) * (before / now) + 0.5 for now, before in zip(grid, trained)]
    at_G2 = torch.cartesian_prod(*sides)
    return F.pad(at_G2, (0, 0, extra, 0))


class GridRotary(Position):
    """Rotary positions in two dimensions. The view's positions are pairs, at_BL2."""

    fused = False

    def __init__(self, head_width: int, base: float) -> None:
        super().__init__()
        self.head_width, self.base = head_width, base

    def over(self, view: View) -> Placement:
        at_BL2, _ = view.positions()
        even = torch.arange(0, self.head_width // 2, 2, device=at_BL2.device)
        rate = (self.base ** (-2 * even.double() / self.head_width)).float()
        angle_BLK = (at_BL2[..., None] * rate).flatten(-2)  # pairs that turn with the row, then those that turn with the column
        angle_B1LK = angle_BLK.repeat(1, 1, 2)[:, None]
        return Rotation(angle_B1LK.cos(), angle_B1LK.sin())
