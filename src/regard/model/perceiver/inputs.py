"""Inputs of a Perceiver as one array of vectors each: pixels, text or a series of numbers, with their positions.

    fourier    features of each position, beside the value itself      Jaegle et al. 2021 (Perceiver), section 3.2
    learned    a vector for each position; those of images of other sizes lie between the vectors that were trained

Fourier features of a position x from -1 to 1 are x, sin(pi f x) and cos(pi f x) for K frequencies f in equal steps from 1 to
half of the resolution, which is the highest that samples at this resolution can tell apart. Of several axes come first all
positions, then all sines axis by axis, then all cosines: the order of the authors' code and of transformers.

Dims: B batch, M positions of an array, C channels of an array, Y X rows and columns, L length, A axes, K bands.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import pi
from typing import Literal

import torch
from torch import Tensor, nn

from regard.core.errors import UserError
from regard.model.embedding import Embed, Learned
from regard.model.layers import Linear, autocast_dtype
from regard.model.vision import Convolutions, ImageSettings
from regard.model.vision.positions import Grid, resized

Positions = Literal["fourier", "learned"]
STEM = 4  # pixels in each direction that the convolutions of a stem make one


def fourier_features(sizes: Sequence[int], bands: int, resolution: float, device: torch.device) -> Tensor:
    """Return features_MC of every place of a grid with these sizes, in row order."""
    places: list[Tensor] = []  # in this form, which the compiler traces
    waves: list[Tensor] = []
    for axis, size in enumerate(sizes):
        shape = [size if n == axis else 1 for n in range(len(sizes))]
        place_N = torch.linspace(-1.0, 1.0, size, device=device)
        angle_NK = pi * place_N[:, None] * torch.linspace(1.0, resolution / 2, bands, device=device)
        places.append(place_N.view(*shape, 1).expand(*sizes, 1))
        waves.append(angle_NK.view(*shape, bands).expand(*sizes, bands))
    # Sines are of one axis each, so they are computed for its places alone and then repeated over the grid.
    return torch.cat([*places, *(x.sin() for x in waves), *(x.cos() for x in waves)], -1).flatten(0, -2)


def fourier_channels(axes: int, bands: int) -> int:
    """Return the width of `fourier_features`."""
    return axes * (1 + 2 * bands)


def dtype_of(weight: Tensor) -> torch.dtype:
    """Return the dtype that vectors of a model with this weight are kept in: autocast's, or the weight's own."""
    return autocast_dtype(weight.device.type) or weight.dtype


class ImageArray(nn.Module):
    """array_BMC of images: a vector for each pixel, or for each cell of 4 x 4 pixels behind a stem of convolutions."""

    def __init__(self, settings: ImageSettings, positions: Positions, *, bands: int, width: int, stem: bool) -> None:
        """Build the parts; `width` is that of what is learned: pixels, positions and cells."""
        super().__init__()
        self.settings, self.bands, self.stem = settings, bands, Convolutions(STEM, width) if stem else None
        side = settings.image_size // STEM if stem else settings.image_size
        self.side = side
        learned = positions == "learned"
        self.pixels = Linear(settings.colours, width) if learned and not stem else None
        self.table = nn.Embedding(side * side, width) if learned else None
        self.project = Linear(width, width) if learned else None
        values = settings.colours if self.pixels is None and not stem else width
        self.channels = values + (width if learned else fourier_channels(2, bands))

    def forward(self, image_BYXC: Tensor, dtype: torch.dtype) -> Tensor:
        """`image_BYXC` holds colours of 0 to 255, whole or not."""
        batch, rows, columns, _ = image_BYXC.shape
        if self.stem is not None:
            x_BMC, rows, columns = self.stem(image_BYXC).to(dtype), rows // STEM, columns // STEM
        else:
            x_BMC = self.settings.as_numbers(image_BYXC, dtype).flatten(1, 2)
            x_BMC = x_BMC if self.pixels is None else self.pixels(x_BMC)
        if self.table is not None and self.project is not None:
            table_MC, trained, grid = self.table.weight, Grid(self.side, self.side), Grid(rows, columns)
            where_MC = self.project(table_MC if grid == trained else resized(table_MC, trained, grid))
        else:
            where_MC = fourier_features((rows, columns), self.bands, self.side, image_BYXC.device)
        return torch.cat([x_BMC, where_MC.to(x_BMC.dtype).expand(batch, -1, -1)], -1)


class TextArray(nn.Module):
    """array_BMC of tokens: embedded, and joined with positions: learned ones are added, Fourier features stand beside."""

    def __init__(
        self, vocabulary: int, positions: Positions, *, bands: int, width: int, maximum_length: int, dropout: float
    ) -> None:
        super().__init__()
        self.bands, self.maximum, self.learned = bands, maximum_length, positions == "learned"
        kind = "learned" if self.learned else "none"
        self.embed = Embed(vocabulary, width, position=kind, maximum_length=maximum_length, dropout=dropout, scaled=False)
        self.channels = width + (0 if self.learned else fourier_channels(1, bands))

    def forward(self, ids_BL: Tensor) -> Tensor:
        x_BMC, (batch, length) = self.embed(ids_BL), ids_BL.shape
        if self.learned:
            return x_BMC
        if length > self.maximum:
            raise UserError(
                f"a text of {length} tokens is longer than model.maximum_length={self.maximum}; shorten it, or train a larger "
                "model."
            )
        # Of a grid of the greatest length, so that a position means the same in texts of any length.
        where_MC = fourier_features((self.maximum,), self.bands, self.maximum, ids_BL.device)[:length]
        return torch.cat([x_BMC, where_MC.to(x_BMC.dtype).expand(batch, -1, -1)], -1)


class SeriesArray(nn.Module):
    """array_BMC of series: the numbers of each time, beside the Fourier features of the time or a learned position."""

    def __init__(self, numbers: int, positions: Positions, *, bands: int, width: int, maximum_length: int) -> None:
        super().__init__()
        self.bands, self.maximum, learned = bands, maximum_length, positions == "learned"
        self.numbers = Linear(numbers, width) if learned else None
        self.table = Learned(width, maximum_length) if learned else None
        self.channels = width if learned else numbers + fourier_channels(1, bands)

    def forward(self, series_BLC: Tensor, dtype: torch.dtype) -> Tensor:
        batch, length, _ = series_BLC.shape
        if length > self.maximum:
            raise UserError(
                f"a series of {length} times is longer than model.maximum_length={self.maximum}; shorten it, or train a larger "
                "model."
            )
        if self.numbers is not None and self.table is not None:
            where_LC = self.table.embed(torch.arange(length, device=series_BLC.device))
            return self.numbers(series_BLC.to(dtype)) + where_LC.to(dtype)
        where_MC = fourier_features((self.maximum,), self.bands, self.maximum, series_BLC.device)[:length]
        return torch.cat([series_BLC.to(dtype), where_MC.to(dtype).expand(batch, -1, -1)], -1)


class PairedArray(nn.Module):
    """array_BMC of an image and a text behind it, each projected to one width and marked by a learned vector.

    Jaegle et al. 2022, section 3.3: elements of several kinds become one array once they have one width and a mark of their kind.
    """

    def __init__(self, image: ImageArray, text: TextArray, width: int) -> None:
        super().__init__()
        self.image, self.text, self.channels = image, text, width
        self.from_image, self.from_text = Linear(image.channels, width), Linear(text.channels, width)
        self.kinds = nn.Embedding(2, width)

    def forward(self, ids_BL: Tensor, image_IYXC: Tensor, owner_B: Tensor | None, dtype: torch.dtype) -> Tensor:
        """Return the array of each text and its image, image `owner_B[b]` for text b."""
        of_image, of_text = self.kinds.weight.to(dtype)
        image_IMC = self.from_image(self.image(image_IYXC, dtype)) + of_image
        image_BMC = image_IMC if owner_B is None else image_IMC[owner_B]
        return torch.cat([image_BMC, self.from_text(self.text(ids_BL)) + of_text], 1)
