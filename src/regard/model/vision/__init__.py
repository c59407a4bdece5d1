"""An image as a grid of cells, each a vector: the memory that attention reads in place of words.

    Patches         a square of pixels, flattened, times a matrix           Dosovitskiy et al. 2021 (ViT), section 3.1
    Convolutions    stages that halve the image                             LeCun et al. 1998; as encoder of Xu et al. 2015
    GridPositions   vectors added for the place of a cell

Cells are in row order, as text is. Patches know only their own pixels, so a stack of blocks follows them; a cell of a convolution
knows its surroundings, so one feed-forward layer joins what it holds with where it is. Stages are normalised in groups of
channels (Wu & He 2018), independent of the other images of a batch.

Dims: B batch, Y X rows and columns of pixels, C colours or channels, M cells, P numbers of a patch, D width.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import gcd, isfinite
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.config import Count
from regard.core.errors import UserError
from regard.model.block import BlockConfig, Stack
from regard.model.embedding import Sinusoidal, by_row_and_column
from regard.model.layers import FeedForward, Linear, Norm
from regard.model.visibility.parse import parse_visibility

COLOURS = 3
GROUPS = 8
NARROWEST = 16  # channels of a first stage
KERNEL = 4  # an even number: with two pixels for one, a cell then looks from its own middle


@dataclass(frozen=True, kw_only=True)
class ImageSettings:
    """Settings of families that read whole images: the size of an image, and the numbers that its pixels become."""

    image_size: Count = 32  # pixels: every image is made so wide and high
    colours: Literal[1, 3] = 3  # of a pixel: grey, or red, green and blue
    pixel_mean: tuple[float, ...] = (0.5,)  # subtracted from colours of 0 to 1; one number for all colours, or one each
    pixel_deviation: tuple[float, ...] = (0.5,)  # what they are divided by then

    def check_image(self) -> None:
        """Refuse numbers that do not fit the colours."""
        for key in ("pixel_mean", "pixel_deviation"):
            if len(given := getattr(self, key)) not in (1, self.colours):
                raise UserError(f"model.{key} has {len(given)} numbers; give one, or one for each of {self.colours} colours.")
            if not all(isfinite(number) for number in given):
                raise UserError(f"model.{key}={','.join(map(str, given))} is not finite; give numbers such as 0.5.")
        if min(self.pixel_deviation) <= 0:
            raise UserError(f"model.pixel_deviation={min(self.pixel_deviation)} must be above 0, such as 0.5.")

    def as_numbers(self, image_BYXC: Tensor, dtype: torch.dtype) -> Tensor:
        """Return colours of 0 to 255, whole or not, as numbers whose mean and deviation over many images are about 0 and 1."""
        scaled_BYXC = image_BYXC.float() / 255
        if len(self.pixel_mean) == len(self.pixel_deviation) == 1:
            return ((scaled_BYXC - self.pixel_mean[0]) / self.pixel_deviation[0]).to(dtype)
        means, deviations = (part * (self.colours // len(part)) for part in (self.pixel_mean, self.pixel_deviation))
        numbers = zip(scaled_BYXC.unbind(-1), means, deviations)
        # Numbers of Python, not a tensor of them: a captured graph may not copy from the host.
        return torch.stack([(colour_BYX - mean) / deviation for colour_BYX, mean, deviation in numbers], -1).to(dtype)


def as_numbers(image_BYXC: Tensor, dtype: torch.dtype) -> Tensor:
    """Bytes from 0 to 255 as numbers from -1 to 1."""
    return image_BYXC.to(dtype) / 127.5 - 1


class Patches(nn.Module):
    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self.size = size
        self.project = Linear(size * size * COLOURS, width)

    def forward(self, image_BYXC: Tensor) -> Tensor:
        """cells_BMD."""
        rows_BYXC = image_BYXC.unflatten(2, (-1, self.size)).unflatten(1, (-1, self.size))  # B, rows, size, columns, size, C
        patches_BMP = rows_BYXC.transpose(2, 3).flatten(3).flatten(1, 2)
        return self.project(as_numbers(patches_BMP, self.project.weight.dtype))


class Convolutions(nn.Module):
    """Convolution stages, each halving the image, until `size` pixels are one."""

    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        channels = [COLOURS, *stage_channels(size, width)]
        self.stages = nn.ModuleList(
            nn.Conv2d(inputs, outputs, KERNEL, stride=2, padding=1, bias=False) for inputs, outputs in pairwise(channels)
        )
        self.norms = nn.ModuleList(nn.GroupNorm(gcd(GROUPS, outputs), outputs) for outputs in channels[1:])

    def forward(self, image_BYXC: Tensor) -> Tensor:
        """cells_BMD."""
        x_BCYX = as_numbers(image_BYXC, self.norms[0].weight.dtype).permute(0, 3, 1, 2)  # type: ignore[arg-type]
        for stage, norm in zip(self.stages, self.norms):
            x_BCYX = F.relu(norm(stage(x_BCYX)))
        return x_BCYX.flatten(2).mT


def stage_channels(size: int, width: int) -> list[int]:
    """Twice as many from stage to stage, up to the width."""
    stages = size.bit_length() - 1
    return [width if n == stages - 1 else max(NARROWEST, width >> (stages - 1 - n)) for n in range(stages)]


class GridPositions(nn.Module):
    """One vector a cell where they are learned; sinusoidal, one half of the width says the row and the other the column."""

    def __init__(self, kind: str, side: int, width: int) -> None:
        super().__init__()
        self.side, self.kind = side, kind
        self.table = nn.Embedding(side * side, width) if kind == "learned" else None
        self.waves = Sinusoidal(width // 2) if kind == "sinusoidal" else None

    def forward(self, cells_BMD: Tensor) -> Tensor:
        if self.table is not None:
            return cells_BMD + self.table.weight.to(cells_BMD.dtype)
        if self.waves is None:
            return cells_BMD
        where_MD = by_row_and_column(self.waves, torch.arange(self.side**2, device=cells_BMD.device), self.side)
        return cells_BMD + where_MD.to(cells_BMD.dtype)


Cells = Literal["cnn", "patches"]


class Think(nn.Module):
    """A feed-forward layer over each cell, which joins content with position, so that a mean of cells still has both."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = Norm(width)
        self.feedforward = FeedForward(width, 2 * width, "relu")

    def forward(self, x_BMD: Tensor) -> Tensor:
        return x_BMD + self.feedforward(self.norm(x_BMD))


def check_cells(size: int, patch: int, kind: Cells, width: int) -> None:
    """Refuse settings of an image encoder that no grid of cells fits."""
    if patch < 2 or size < patch or size % patch:
        raise UserError(
            f"model.image_size={size} is not a multiple of model.patch={patch}, which is at least 2 pixels; "
            f"give, for instance, model.image_size={max(patch, 2) * 8} and model.patch={max(patch, 2)}."
        )
    if kind == "cnn" and patch & (patch - 1):
        raise UserError(f"model.patch={patch} cannot be halved to 1 by the stages of a cnn; give 2, 4, 8, 16 or 32.")
    if width % 4:
        raise UserError(f"model.width={width} must be a multiple of 4: a row and a column share it in waves.")


class ImageEncoder(nn.Module):
    def __init__(
        self, config: BlockConfig, kind: Cells, *, patch: int, side: int, layers: int, position: str, visibility: str
    ) -> None:
        """Build an encoder of `side` x `side` cells of `patch` pixels; `layers` and `visibility` are those of blocks."""
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
