"""Where a token stands. Self-attention alone ignores order (permute the input and the output is permuted), so position is given.

Sinusoidal (Vaswani et al. 2017, section 3.5): PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos of the same. For a fixed
offset k, PE(pos + k) is a rotation of PE(pos) that does not depend on pos. Computed where it is needed, so no length is too long.
Of an image that is read row by row, half of the width says the row and half the column (Parmar et al. 2018, section 3.1).
Learned (BERT, GPT-2): one vector a position, up to a maximum; RoBERTa's first position is not the first row of its table.
"""

from __future__ import annotations

from collections.abc import Callable
from math import pi
from typing import Literal

import torch
from torch import Tensor, nn

from regard.errors import UserError

PositionKind = Literal["sinusoidal", "learned", "none"]


class Sinusoidal(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        # Whole numbers, which a model in half precision leaves as they are: rates rounded to bf16 would turn far positions wrong.
        self.register_buffer("even_K", torch.arange(0, width, 2), persistent=False)
        self.even_K: Tensor

    def forward(self, positions_L: Tensor) -> Tensor:
        rate_K = (10000.0 ** (-self.even_K.double() / self.width)).float()
        angles_LK = positions_L[..., None].float() * rate_K
        return torch.stack([angles_LK.sin(), angles_LK.cos()], -1).flatten(-2)[..., : self.width]


class Pixels(nn.Module):
    """Rows and columns of an image whose pixels come row by row behind a mark, which stands in a row of its own above.

    Waves are those that an image can tell apart: the fastest turns a quarter from pixel to pixel, the slowest a radian in a row.
    """

    def __init__(self, width: int, columns: int) -> None:
        super().__init__()
        self.width, self.columns = width, columns
        self.register_buffer("number_K", torch.arange(width // 4), persistent=False)
        self.number_K: Tensor

    def forward(self, positions_L: Tensor) -> Tensor:
        slower = (self.columns * pi / 2) ** (-1 / max(1, self.width // 4 - 1))
        rate_K = (pi / 2 * slower ** self.number_K.double()).float()
        pixel_L = positions_L - 1
        where_L2 = torch.stack([pixel_L.div(self.columns, rounding_mode="floor"), pixel_L % self.columns], -1)
        angles_L2K = where_L2[..., None].float() * rate_K
        return torch.cat([angles_L2K.sin(), angles_L2K.cos()], -1).flatten(-2)


class Learned(nn.Module):
    def __init__(self, width: int, maximum: int, first: int = 0) -> None:
        super().__init__()
        self.maximum, self.first = maximum, first
        self.table = nn.Embedding(first + maximum, width)

    def forward(self, positions_L: Tensor) -> Tensor:
        return self.table(positions_L + self.first if self.first else positions_L)


def tiled(table_PD: Tensor, rows: int, first: int = 0) -> Tensor:
    """A table for more positions than were learned: those that were, again and again (Beltagy et al. 2020, section 5).

    The `first` rows, which no position has, stay as they are.
    """
    learned = len(table_PD) - first
    place_P = torch.arange(rows - first, device=table_PD.device) % learned + first
    return torch.cat([table_PD[:first], table_PD[place_P]])


class Positions(nn.Module):
    """The chosen scheme: vectors_LD for positions_L, or None where order is not given at all. Pixels have `columns`, texts 0."""

    def __init__(self, kind: PositionKind, width: int, maximum: int, first: int = 0, columns: int = 0) -> None:
        super().__init__()
        schemes: dict[PositionKind, Callable[[], nn.Module]] = {
            "sinusoidal": lambda: Pixels(width, columns) if columns else Sinusoidal(width),
            "learned": lambda: Learned(width, maximum, first),
            "none": nn.Identity,
        }
        self.kind, self.scheme = kind, schemes[kind]()

    def forward(self, positions_L: Tensor) -> Tensor | None:
        return None if self.kind == "none" else self.scheme(positions_L)

    def check(self, length: int) -> None:
        """Known to the host before any kernel runs: is there a position for so many tokens?"""
        if isinstance(self.scheme, Learned) and length > self.scheme.maximum:
            raise UserError(
                f"a sequence of {length} tokens does not fit the {self.scheme.maximum} learned positions of this model; "
                f"shorten it, or train with a larger model.maximum_length or model.position=sinusoidal."
            )
