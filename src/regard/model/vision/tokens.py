"""Tokens of an image: patches or convolutions make them, learned tokens stand in front, places on the grid are added.

    patches         a square of pixels, flattened, times a matrix          Dosovitskiy et al. 2021 (ViT), equation 1
    convolutions    convolution, rectifier, max-pool, as often as asked    Hassani et al. 2021 (compact Transformers), section 3.3

Tokens are in row order, as text is. The patch matrix equals a convolution whose stride is its width; numbers of a patch are in
the order row, column, colour. Images of any size that divides into patches are read: places follow (`vision/positions.py`).

Dims: B batch, Y X rows and columns of pixels, C colours or channels, M tokens, G cells of a grid, P numbers of a patch, D width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.config import Bounds, Count, refuse_unused
from regard.core.errors import UserError
from regard.model.layers import Linear, autocast_dtype
from regard.model.vision import ImageSettings
from regard.model.vision.positions import Grid, GridVectors, coordinates

CHANNELS = 64  # of all convolutions but the last, as published
POOL_STRIDE = 2


@dataclass(frozen=True, kw_only=True)
class PatchSettings:
    """Recipe keys of model.tokens=patches."""

    patch: Count = 16  # pixels that a token is wide and high


@dataclass(frozen=True, kw_only=True)
class ConvolutionalTokens:
    """Recipe keys of model.tokens=convolutions."""

    token_kernel: Count = 3  # pixels that a convolution is wide and high
    token_layers: Count = 1  # convolutions, one after another
    token_pool: Annotated[int, Bounds(0, zero="none")] = 3  # cells that max-pooling joins, every second one, after each of them


@dataclass(frozen=True, kw_only=True)
class TokenSettings(ImageSettings, PatchSettings, ConvolutionalTokens):
    """How an image becomes tokens."""

    tokens: Literal["patches", "convolutions"] = "patches"

    def check_tokens(self) -> None:
        """Refuse sizes that leave no token, or pixels outside of all of them."""
        self.check_image()
        refuse_unused(self, PatchSettings, "tokens", "patches")
        refuse_unused(self, ConvolutionalTokens, "tokens", "convolutions")
        grid_of(self, self.image_size, self.image_size, "model.image_size of")


def grid_of(settings: TokenSettings, rows: int, columns: int, what: str = "an image of") -> Grid:
    """Return how many tokens an image of this size has from top to bottom and from left to right."""
    c, size = settings, f"{rows} x {columns} pixels"
    if c.tokens == "patches":
        if rows % c.patch or columns % c.patch:
            nearest = max(1, round(rows / c.patch)) * c.patch, max(1, round(columns / c.patch)) * c.patch
            raise UserError(
                f"{what} {size} does not divide into patches of model.patch={c.patch}; give {nearest[0]} x {nearest[1]} pixels, "
                "or another model.patch."
            )
        return Grid(rows // c.patch, columns // c.patch)
    for _ in range(c.token_layers):
        for width, stride in ((c.token_kernel, stride_of(c.token_kernel)), (c.token_pool, POOL_STRIDE)):
            if width:
                rows, columns = ((side + 2 * (width // 2) - width) // stride + 1 for side in (rows, columns))
    if min(rows, columns) < 1:
        raise UserError(f"{what} {size} leaves no token after model.token_layers={c.token_layers}; take fewer, or larger images.")
    return Grid(rows, columns)


def stride_of(kernel: int) -> int:
    """Return the stride of a convolution of this width, as published: 1 up to 5 pixels, then 2."""
    return max(1, kernel // 2 - 1)


class PatchTokens(nn.Module):
    def __init__(self, settings: TokenSettings, width: int) -> None:
        super().__init__()
        self.settings, self.size = settings, settings.patch
        self.project = Linear(self.size**2 * settings.colours, width)

    def forward(self, image_BYXC: Tensor) -> Tensor:
        """cells_BGD."""
        return self.project(self.numbers(image_BYXC).to(self.project.weight.dtype))

    def numbers(self, image_BYXC: Tensor) -> Tensor:
        """patches_BGP: the numbers of each patch."""
        pixels_BYXC = self.settings.as_numbers(image_BYXC, torch.float32)
        rows_BYXC = pixels_BYXC.unflatten(2, (-1, self.size)).unflatten(1, (-1, self.size))  # B, rows, size, columns, size, C
        return rows_BYXC.transpose(2, 3).flatten(3).flatten(1, 2)

    def image(self, patches_BGP: Tensor, columns: int) -> Tensor:
        """image_BYXC of numbers that `numbers` took apart, as colours from 0 to 255 that may go beyond."""
        rows_BYXC = patches_BGP.unflatten(2, (self.size, self.size, -1)).unflatten(1, (-1, columns)).transpose(2, 3)
        image_BYXC = rows_BYXC.flatten(3, 4).flatten(1, 2)
        mean, deviation = (image_BYXC.new_tensor(part) for part in (self.settings.pixel_mean, self.settings.pixel_deviation))
        return (image_BYXC * deviation + mean) * 255


class ConvolutionTokens(nn.Module):
    def __init__(self, settings: TokenSettings, width: int) -> None:
        super().__init__()
        self.settings, kernel = settings, settings.token_kernel
        channels = [settings.colours, *[CHANNELS] * (settings.token_layers - 1), width]
        self.layers = nn.ModuleList(
            nn.Conv2d(inputs, outputs, kernel, stride=stride_of(kernel), padding=kernel // 2, bias=False)
            for inputs, outputs in pairwise(channels)
        )

    def forward(self, image_BYXC: Tensor) -> Tensor:
        """cells_BGD."""
        first: Any = self.layers[0]
        x_BCYX = self.settings.as_numbers(image_BYXC, first.weight.dtype).permute(0, 3, 1, 2)
        for layer in self.layers:
            x_BCYX = F.relu(layer(x_BCYX))
            if width := self.settings.token_pool:
                x_BCYX = F.max_pool2d(x_BCYX, width, POOL_STRIDE, width // 2)
        return x_BCYX.flatten(2).mT


class ImageTokens(NamedTuple):
    x_BMD: Tensor
    at_BM2: Tensor | None  # row and column of every token, for position schemes inside attention; B may be 1


class TokenEmbedding(nn.Module):
    """Tokens of images, `extra` learned ones first, each with its place added."""

    def __init__(self, settings: Any, extra: Sequence[str]) -> None:
        """`settings` are those of a family: `TokenSettings`, `width`, `position` and `dropout`."""
        super().__init__()
        c = self.settings = settings
        self.extra = tuple(extra)
        self.cells: Any = (PatchTokens if c.tokens == "patches" else ConvolutionTokens)(c, c.width)
        for name in self.extra:
            self.register_parameter(f"{name}_token", nn.Parameter(torch.zeros(c.width)))
        grid = grid_of(c, c.image_size, c.image_size)
        self.vectors = GridVectors(c.position, c.width, grid, len(self.extra), c.antialias)
        self.dropout = nn.Dropout(c.dropout)

    def forward(self, image_BYXC: Tensor, kept_BM: Tensor | None = None) -> ImageTokens:
        """Read whole images, or of each only the cells with these numbers."""
        check_image(image_BYXC, self.settings)
        grid = grid_of(self.settings, image_BYXC.shape[1], image_BYXC.shape[2])
        x_BMD = self.cells(image_BYXC)
        places_MD = self.vectors(grid)
        if places_MD is not None:
            x_BMD = x_BMD + places_MD[len(self.extra) :].to(x_BMD.dtype)
        if kept_BM is not None:
            x_BMD = x_BMD.gather(1, kept_BM[..., None].expand(-1, -1, x_BMD.shape[-1]))
        if self.extra:
            learned_MD = torch.stack([self.get_parameter(f"{name}_token") for name in self.extra])
            if places_MD is not None:
                learned_MD = learned_MD + places_MD[: len(self.extra)].to(learned_MD.dtype)
            x_BMD = torch.cat([learned_MD.to(x_BMD.dtype).expand(len(x_BMD), -1, -1), x_BMD], 1)
        # Residuals add to these vectors all the way up, so their type is the whole stream's.
        if (half := autocast_dtype(x_BMD.device.type)) is not None:
            x_BMD = x_BMD.to(half)
        return ImageTokens(self.dropout(x_BMD), self._places(grid, kept_BM, x_BMD.device))

    def _places(self, grid: Grid, kept_BM: Tensor | None, device: torch.device) -> Tensor | None:
        if self.settings.position != "rotary":
            return None
        at_1M2 = coordinates(grid, self.vectors.grid, len(self.extra), device)[None]
        if kept_BM is None:
            return at_1M2
        cells_BM2 = at_1M2[0, len(self.extra) :][kept_BM]
        return torch.cat([at_1M2[:, : len(self.extra)].expand(len(kept_BM), -1, -1), cells_BM2], 1)


def check_image(image_BYXC: Tensor, settings: ImageSettings) -> None:
    """Refuse what is no batch of images with the model's colours."""
    if image_BYXC.dim() != 4 or image_BYXC.shape[-1] != settings.colours:
        raise UserError(
            f"this model reads images of shape (batch, rows, columns, {settings.colours}), and was given "
            f"{tuple(image_BYXC.shape)}; put colours last, or set model.colours."
        )
