"""Tokens become vectors, with their absolute positions; and vectors become logits of tokens, often by the same matrix.

Positions: self-attention alone ignores order (a permuted input permutes the output), so vectors of positions are added.

Sinusoidal (Vaswani et al. 2017, section 3.5): PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos of the same. For a fixed
offset k, PE(pos + k) is a rotation of PE(pos) that does not depend on pos. Computed where it is needed, so no length is too long.
Of an image that is read row by row, half of the width says the row and half the column (Parmar et al. 2018, section 3.1).
Learned (BERT, GPT-2): one vector a position, up to a maximum; RoBERTa's first position is not the first row of its table.

`Embed`: an embedding scaled by sqrt(D), joined with the position, then dropout (Vaswani et al. 2017, sections 3.4, 3.5, 5.4).
Joined by `add` as in the paper, or by `concat`, which gives positions their own P of the D dimensions. GPT and BERT do not scale;
BERT adds the segment a token belongs to, and normalises the sum. ELECTRA's words (Clark et al. 2020) may be narrower than its
body: a projection widens them. Where text is scarce, whole words may be dropped (Gal & Ghahramani 2016), lest a rare one tells
all that follows it.
"""

from __future__ import annotations

from collections.abc import Callable
from math import pi
from typing import Literal

import torch
from torch import Tensor, nn

from regard.core.errors import UserError
from regard.model.layers import Linear, Norm, autocast_dtype
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


Join = Literal["add", "concat"]


class Embed(nn.Module):
    def __init__(
        self,
        vocabulary: int,
        width: int,
        *,
        position: str,
        maximum_length: int,
        dropout: float,
        join: Join = "add",
        position_width: int = 0,
        scaled: bool = True,
        segments: int = 0,
        norm_epsilon: float = 0.0,
        first_position: int = 0,
        body_width: int = 0,
        word_dropout: float = 0.0,
        columns: int = 0,
    ) -> None:
        """A `body_width` of 0 is that of the words; `word_dropout` is of whole words, wherever in the batch they stand.

        Tokens with `columns` are the pixels of an image, row by row."""
        super().__init__()
        self.concat = join == "concat"
        self.tokens = nn.Embedding(vocabulary, width - position_width if self.concat else width)
        self.positions = InputPositions(
            position, position_width if self.concat else width, maximum_length, first_position, columns
        )
        self.scale = self.tokens.embedding_dim**0.5 if scaled else 1.0
        self.segments = nn.Embedding(segments, width) if segments else None
        self.norm = Norm(width, eps=norm_epsilon) if norm_epsilon else None
        self.dropout, self.word_dropout = nn.Dropout(dropout), word_dropout
        self.widen = Linear(width, body_width) if body_width not in (0, width) else None

    def forward(self, ids_BL: Tensor, positions_L: Tensor | None = None, segments_BL: Tensor | None = None) -> Tensor:
        """Tokens at these positions, at 0, 1, 2, ... where none are given; of these segments, the first where none are given."""
        if positions_L is None:
            self.positions.check(ids_BL.shape[1])
            positions_L = torch.arange(ids_BL.shape[1], device=ids_BL.device)
        x_BLD = self.tokens(ids_BL) * self.scale
        if self.training and self.word_dropout:
            kept_V = torch.rand(self.tokens.num_embeddings, device=ids_BL.device) >= self.word_dropout
            x_BLD = x_BLD * (kept_V[ids_BL] / (1 - self.word_dropout))[..., None]
        if (where_LD := self.positions.embed(positions_L)) is not None:
            if self.concat:
                x_BLD = torch.cat([x_BLD, where_LD.to(x_BLD).expand(ids_BL.shape[0], -1, -1)], -1)
            else:
                x_BLD = x_BLD + where_LD.to(x_BLD.dtype)
        if self.segments is not None:
            x_BLD = x_BLD + (self.segments.weight[0] if segments_BL is None else self.segments(segments_BL))
        if self.norm is not None:
            x_BLD = self.norm(x_BLD)
        # Residuals add to these vectors all the way up, so their type is the whole stream's.
        if (half := autocast_dtype(x_BLD.device.type)) is not None:
            x_BLD = x_BLD.to(half)
        x_BLD = self.dropout(x_BLD)
        return x_BLD if self.widen is None else self.widen(x_BLD)


class Scale(nn.Module):
    """Multiply vectors by one number."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x_BLD: Tensor) -> Tensor:
        return x_BLD * self.factor


class VocabularyHead(nn.Module):
    """logits_BLV = x W^T; W may be the embedding itself (Press & Wolf 2017)."""

    def __init__(
        self,
        width: int,
        vocabulary: int,
        tied: nn.Embedding | None = None,
        bias: bool = False,
        before: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.before = before
        self.project = Linear(width, vocabulary, bias=bias)
        if tied is not None:
            self.project.weight = tied.weight

    def extra_repr(self) -> str:
        return f"D={self.project.in_features} -> V={self.project.out_features:,}"

    def forward(self, x_BLD: Tensor) -> Tensor:
        return self.project(self.ready(x_BLD))

    def ready(self, x_BLD: Tensor) -> Tensor:
        """Return the vectors before the last product, which a loss computes in chunks, never as one matrix."""
        return x_BLD if self.before is None else self.before(x_BLD)
