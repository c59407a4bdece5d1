"""Vectors of the places of an image, compared: the cosine of each with all others, as one small picture a place.

Dosovitskiy et al. 2021, figure 7 (middle): learned vectors of places in one row or column are alike, though the table is a list,
not a grid. How much of it a row and a column explain is measured: the share of its variance that the sum of a vector for the row
and a vector for the column accounts for. The rest is what a place has of its own.

Dims: P places, Y X rows and columns of the grid, D width.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import nn

from regard.core.errors import UserError
from regard.lens.display import report
from regard.lens.plots.grid_positions import drawn
from regard.lens.result import NotebookView
from regard.model.vision.positions import GridVectors

FARTHEST = 8  # cells of a distance that is listed


@dataclass(frozen=True, eq=False)
class GridPositions(NotebookView):
    FORMAT = "regard.grid_positions.1"
    title: str
    kind: str
    rows: int
    columns: int
    width: int
    cosine_PP: np.ndarray
    by_row_and_column: float  # share of the variance of vectors that a vector for the row and one for the column explain

    def mean(self, down: int, right: int) -> float | None:
        """Return the mean cosine of two places so far apart; None where the grid is smaller."""
        if down >= self.rows or right >= self.columns:
            return None
        cosine_YXYX = self.cosine_PP.reshape(self.rows, self.columns, self.rows, self.columns)
        y, x = np.ogrid[: self.rows - down, : self.columns - right]
        return float(cosine_YXYX[y, x, y + down, x + right].mean())

    def lines(self) -> list[str]:
        told = f"{self.kind} positions of {self.rows} × {self.columns} patches, width {self.width}; a row and a column together "
        told += f"explain {100 * self.by_row_and_column:.0f} % of the differences between places"
        apart = [n for n in range(1, FARTHEST + 1) if n < max(self.rows, self.columns)]
        rows = [[n, self.mean(0, n), self.mean(n, 0), self.mean(n, n)] for n in apart]
        return report(self.title, told, ["cells apart", "in a row", "in a column", "diagonally"], rows)

    def figure(self) -> Figure:
        caption = (
            f"{self.kind} positions: each small picture stands at the place of a patch, and shows the cosine of its vector with "
            "those of all patches."
        )
        return drawn(self.title, caption, self.cosine_PP.reshape(self.rows, self.columns, self.rows, self.columns))


def grid_positions(model: nn.Module) -> GridVectors | None:
    """Return the positions of a model that reads images."""
    return next((module for module in model.modules() if isinstance(module, GridVectors)), None)


@torch.no_grad()
def compared(vectors: GridVectors, title: str) -> GridPositions:
    """Compare the vectors of the grid that a model was trained with."""
    if (found := vectors(vectors.grid)) is None:
        raise UserError(
            f"model.position={vectors.kind} adds no vectors to the patches of an image, so there is nothing to compare; --show "
            "roles shows how far and in which direction heads look."
        )
    rows, columns = vectors.grid
    table_PD = found[vectors.extra :].double().cpu().numpy()
    unit_PD = table_PD / np.maximum(np.linalg.norm(table_PD, axis=1, keepdims=True), 1e-300)
    grid_YXD = table_PD.reshape(rows, columns, -1) - table_PD.mean(0)
    left_YXD = grid_YXD - grid_YXD.mean(0) - grid_YXD.mean(1, keepdims=True)
    whole = max(float(np.square(grid_YXD).sum()), 1e-300)
    explained = 1 - float(np.square(left_YXD).sum()) / whole
    return GridPositions(title, vectors.kind, rows, columns, table_PD.shape[1], unit_PD @ unit_PD.T, explained)
