"""Absolute positions, added to the input: self-attention alone ignores order (a permuted input permutes the output).

Sinusoidal (Vaswani et al. 2017, section 3.5): PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos of the same. For a fixed
offset k, PE(pos + k) is a rotation of PE(pos) that does not depend on pos. Computed where it is needed, so no length is too long.
Of an image that is read row by row, half of the width says the row and half the column (Parmar et al. 2018, section 3.1).
Learned (BERT, GPT-2): one vector a position, up to a maximum; RoBERTa's first position is not the first row of its table.
"""

from __future__ import annotations

from collections.abc import Callable
from math import pi

import torch
from torch import Tensor, nn

from regard.core.errors import UserError
from regard.model.position.base import Position


class Sinusoidal(Position):
    """Waves from the fastest, in radians a position, to one that is nearly `base` times as slow."""

    def __init__(self, width: int, base: float = 10000.0, fastest: float = 1.0, *, halves: bool = False) -> None:
        """With `halves`, all sines come before all cosines, as in Marian and tensor2tensor; else they take turns."""
        super().__init__()
        self.width, self.base, self.fastest, self.halves = width, base, fastest, halves
        # Whole numbers, which a model in half precision leaves as they are: rates rounded to bf16 would turn far positions wrong.
        self.register_buffer("even_K", torch.arange(0, width, 2), persistent=False)
        self.even_K: Tensor

    def embed(self, positions_L: Tensor) -> Tensor:
        rate_K = (self.fastest * self.base ** (-self.even_K.double() / self.width)).float()
        angles_LK = positions_L[..., None].float() * rate_K
        waves = angles_LK.sin(), angles_LK.cos()
        vectors_LD = torch.cat(waves, -1) if self.halves else torch.stack(waves, -1).flatten(-2)
        return vectors_LD[..., : self.width]


def by_row_and_column(waves: Sinusoidal, cells_L: Tensor, columns: int) -> Tensor:
    """Return vectors of cells in row order: one half encodes the row, the other the column."""
    return torch.cat([waves.embed(cells_L.div(columns, rounding_mode="floor")), waves.embed(cells_L % columns)], -1)


class Pixels(Position):
    """Positions of an image's pixels in row order, behind a start token in a row of its own above.

    Waves are those that an image can tell apart: the fastest turns a quarter from pixel to pixel, the slowest a radian in a row.
    """

    def __init__(self, width: int, columns: int) -> None:
        super().__init__()
        self.columns = columns
        self.waves = Sinusoidal(width // 2, base=columns * pi / 2, fastest=pi / 2)

    def embed(self, positions_L: Tensor) -> Tensor:
        return by_row_and_column(self.waves, positions_L - 1, self.columns)


class Learned(Position):
    def __init__(self, width: int, maximum: int, first: int = 0) -> None:
        super().__init__()
        self.maximum, self.first = maximum, first
        self.table = nn.Embedding(first + maximum, width)

    def embed(self, positions_L: Tensor) -> Tensor:
        return self.table(positions_L + self.first if self.first else positions_L)


def tiled(table_PD: Tensor, rows: int, first: int = 0) -> Tensor:
    """A table for more positions than were learned: those that were, again and again (Beltagy et al. 2020, section 5).

    The `first` rows, which no position has, stay as they are.
    """
    learned = len(table_PD) - first
    place_P = torch.arange(rows - first, device=table_PD.device) % learned + first
    return torch.cat([table_PD[:first], table_PD[place_P]])


class InputPositions(Position):
    """The scheme that adds vectors to the input; any other kind adds none. Pixels have `columns`, texts 0."""

    def __init__(self, kind: str, width: int, maximum: int, first: int = 0, columns: int = 0) -> None:
        super().__init__()
        schemes: dict[str, Callable[[], Position]] = {
            "sinusoidal": lambda: Pixels(width, columns) if columns else Sinusoidal(width),
            "sinusoidal-halves": lambda: Sinusoidal(width, halves=True),
            "learned": lambda: Learned(width, maximum, first),
        }
        self.kind, self.scheme = kind, schemes.get(kind, Position)()

    def embed(self, positions_L: Tensor) -> Tensor | None:
        return self.scheme.embed(positions_L)

    def check(self, length: int) -> None:
        """Refuse a text with more tokens than there are learned positions, before any kernel runs."""
        if isinstance(self.scheme, Learned) and length > self.scheme.maximum:
            raise UserError(
                f"a sequence of {length} tokens does not fit the {self.scheme.maximum} learned positions of this model; "
                f"shorten it, or train with a larger model.maximum_length or model.position=sinusoidal."
            )
