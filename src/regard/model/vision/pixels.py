"""An image as a sequence of tokens: their order, the ids that they are read by, where they stand, and what they may attend to.

    small image (for super-resolution) | start | pixel 1 | pixel 2 | ...

Row by row, as text is read; of a pixel of red, green and blue each colour is a token, or all three are one (`coupled`). A token's
position is its row in one half of the width, its column and colour in the other (Parmar et al. 2018, section 3.1), by waves or by
learned vectors; a pixel of the small image stands in the middle of the pixels that it became. The start token stands above the
image and says its class.

Dims: B images, L tokens that are read, N levels of an image, M of the small image, D width.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, pi

import torch
from torch import Tensor, nn

from regard.model.embedding import Sinusoidal
from regard.model.position.base import Position
from regard.model.sparse.blocks import Between, Span
from regard.model.visibility import End, Full, Visibility

COLOURS = 3


@dataclass(frozen=True)
class PixelOrder:
    """The sizes of an image and of what stands before it."""

    side: int  # rows, and columns
    levels: int  # of a colour, or colours of a palette
    tokens: int = 1  # of a pixel
    coupled: bool = False  # three colours are one token
    classes: int = 0
    small: int = 0  # rows and columns of the small image

    @property
    def starts(self) -> int:
        """Return how many start tokens there are: one a class, or one."""
        return max(1, self.classes)

    @property
    def values(self) -> int:
        """Return how many ids a pixel's token has."""
        return int(self.levels**COLOURS) if self.coupled else self.levels

    @property
    def prefix(self) -> int:
        """Return the tokens before the start token."""
        return self.small**2 * self.tokens

    @property
    def columns(self) -> int:
        return self.side * self.tokens

    @property
    def pixels(self) -> int:
        """Return the tokens of the image."""
        return self.side * self.columns

    @property
    def length(self) -> int:
        """Return the tokens that are read: all but the last of the image."""
        return self.prefix + self.pixels

    @property
    def rows(self) -> int:
        """Return the vectors of tokens: those of levels, of start tokens, and of levels of a small image."""
        return self.starts + (COLOURS if self.coupled else 1) * self.levels * (2 if self.small else 1)

    def ids(self, level_BN: Tensor, class_B: Tensor | None = None, small_BM: Tensor | None = None) -> Tensor:
        """Return ids of the small image, the start token and the levels, which may be those of the first pixels alone."""
        start_B = level_BN.new_zeros(len(level_BN), dtype=torch.long) if class_B is None else class_B.long()
        parts = [self.values + start_B[:, None], self.joined(level_BN.long())]
        if small_BM is not None:
            parts.insert(0, self.values + self.starts + self.joined(small_BM.long()))
        return torch.cat(parts, 1)

    def joined(self, level_BN: Tensor) -> Tensor:
        """Return one id for each token: of coupled pixels, their three levels as the digits of one number."""
        if not self.coupled:
            return level_BN
        red, green, blue = level_BN.unflatten(-1, (-1, COLOURS)).unbind(-1)
        return (red * self.levels + green) * self.levels + blue

    def apart(self, id_BL: Tensor) -> Tensor:
        """Return the levels of coupled pixels: the inverse of `joined`."""
        if not self.coupled:
            return id_BL
        green = id_BL // self.levels
        return torch.stack([green // self.levels, green % self.levels, id_BL % self.levels], -1).flatten(-2)

    def places(self, positions_L: Tensor) -> tuple[Tensor, Tensor]:
        """Return row and column of tokens at these positions of the sequence, in the image; the start token has row -1."""
        at_L = positions_L - self.prefix - 1
        row_L, column_L = at_L.div(self.columns, rounding_mode="floor"), at_L % self.columns
        if not self.prefix:
            return row_L, column_L
        wide, scale = self.small * self.tokens, self.side // self.small
        small_row_L = positions_L // wide * scale + scale // 2
        small_column_L = positions_L % wide
        pixel_L = small_column_L // self.tokens * scale + scale // 2
        before_L = positions_L < self.prefix
        row_L = torch.where(before_L, small_row_L, row_L)
        return row_L, torch.where(before_L, pixel_L * self.tokens + small_column_L % self.tokens, column_L)


class GridPositions(Position):
    """A vector for the row of a token beside one for its column and colour."""

    def __init__(self, width: int, order: PixelOrder, learned: bool) -> None:
        super().__init__()
        self.order = order
        # Waves that an image can tell apart: the fastest turns a quarter from token to token, the slowest a radian in a row.
        waves = None if learned else Sinusoidal(width // 2, base=order.columns * pi / 2, fastest=pi / 2)
        self.waves = waves
        self.row = nn.Embedding(order.side + 1, width // 2) if learned else None  # the first is the start token's
        self.column = nn.Embedding(order.columns, width // 2) if learned else None

    def embed(self, positions_L: Tensor) -> Tensor:
        row_L, column_L = self.order.places(positions_L)
        if self.waves is not None:
            return torch.cat([self.waves.embed(row_L), self.waves.embed(column_L)], -1)
        assert self.row is not None
        assert self.column is not None
        return torch.cat([self.row(row_L + 1), self.column(column_L)], -1)


class CoupledTokens(nn.Embedding):
    """The vector of a pixel that is one token: the sum of those of its three colours."""

    def __init__(self, order: PixelOrder, width: int) -> None:
        super().__init__(order.rows, width)
        self.order = order

    def forward(self, id_BL: Tensor) -> Tensor:
        order = self.order
        pixels, levels = order.values, order.levels
        behind_BL = id_BL >= pixels + order.starts  # of the small image
        start_BL = (id_BL >= pixels) & ~behind_BL
        value_BL = torch.where(behind_BL, id_BL - pixels - order.starts, id_BL).clamp(max=pixels - 1)
        table_BL = behind_BL * (COLOURS * levels + order.starts)
        offset_C = levels * torch.arange(COLOURS, device=id_BL.device)
        rows_BLC = order.apart(value_BL).unflatten(-1, (-1, COLOURS)) + offset_C + table_BL[..., None]
        first_BL = COLOURS * levels + torch.where(start_BL, id_BL - pixels, 0)
        return torch.where(start_BL[..., None], super().forward(first_BL), super().forward(rows_BLC).sum(-2))


@dataclass(frozen=True)
class AfterPrefix(Visibility):
    """A pattern over an image's tokens, all of which see the `prefix` tokens before the image too."""

    pattern: Visibility
    prefix: int
    sees_first = True

    @property
    def sees_itself(self) -> bool:  # type: ignore[override]
        return self.pattern.sees_itself

    @property
    def block_size(self) -> int:  # type: ignore[override]
        return gcd(self.pattern.block_size, self.prefix)

    def with_length(self, end: End) -> Visibility:
        return AfterPrefix(self.pattern.with_length(None if end is None else end - self.prefix), self.prefix)

    def sees(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        inside = self.pattern.sees(b, h, (i - self.prefix).clamp(min=0), (j - self.prefix).clamp(min=0)) > 0
        return (j < self.prefix) | ((i >= self.prefix) & inside)

    def between(self, b: Tensor, queries: Span, keys: Span) -> Between:
        some, every = self.pattern.between(b, self._inside(queries), self._inside(keys))
        within = Between(some & (queries.last >= self.prefix), every & (torch.minimum(queries.first, keys.first) >= self.prefix))
        return within.either(Between(keys.first < self.prefix, keys.last < self.prefix))

    def _inside(self, span: Span) -> Span:
        return Span((span.first - self.prefix).clamp(min=0), (span.last - self.prefix).clamp(min=0), span.most)

    def __str__(self) -> str:
        return str(self.pattern)


def after_prefix(pattern: Visibility, prefix: int) -> Visibility:
    """Return the pattern of an image behind `prefix` tokens that everything sees."""
    return AfterPrefix(pattern, prefix) if prefix and not isinstance(pattern, Full) else pattern
