"""Neighbours in an image, whose pixels are read row by row: the local attention of the Image Transformer (Parmar et al. 2018).

Pixels come in blocks, and a block sees itself and a margin around it. The paper's decoder looks back only, at the margin before a
block; that is `causal &` of this.

Dims: Y X rows and columns of the image.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from torch import Tensor

from regard.model.sparse.blocks import Between, Span
from regard.model.visibility import Visibility


@dataclass(frozen=True)
class Local1D(Visibility):
    """Blocks of `size` positions, and `margin` more on both sides."""

    size: int
    margin: int
    sees_itself = True

    @property
    def block_size(self) -> int:  # type: ignore[override]
        return gcd(self.size, self.margin)

    def sees(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        first = i // self.size * self.size
        return (j >= first - self.margin) & (j < first + self.size + self.margin)

    def between(self, b: Tensor, queries: Span, keys: Span) -> Between:
        first, last, _ = queries.in_blocks(self.size)
        earliest, latest = first * self.size - self.margin, (last + 1) * self.size + self.margin - 1
        surely_from, surely_to = last * self.size - self.margin, (first + 1) * self.size + self.margin - 1
        some = (keys.last >= earliest) & (keys.first <= latest)
        return Between(some, (keys.first >= surely_from) & (keys.last <= surely_to))

    def __str__(self) -> str:
        return f"image_local_1d({self.size}, {self.margin})"


@dataclass(frozen=True)
class Local2D(Visibility):
    """Blocks of rows and columns of an image of this `width`, and the margins around them."""

    width: int
    rows: int
    columns: int
    above: int
    beside: int
    sees_itself = True

    @property
    def _y(self) -> Local1D:
        return Local1D(self.rows, self.above)

    @property
    def _x(self) -> Local1D:
        return Local1D(self.columns, self.beside)

    def sees(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return self._y.sees(b, h, i // self.width, j // self.width) & self._x.sees(b, h, i % self.width, j % self.width)

    def between(self, b: Tensor, queries: Span, keys: Span) -> Between:
        """A span of more than one row may have all of its columns."""
        y = self._y.between(b, queries.in_blocks(self.width), keys.in_blocks(self.width))
        return y.both(self._x.between(b, self._columns(queries), self._columns(keys)))

    def _columns(self, span: Span) -> Span:
        in_many = span.first // self.width != span.last // self.width
        first, last = span.first % self.width, span.last % self.width
        return Span(first.masked_fill(in_many, 0), last.masked_fill(in_many, self.width - 1), self.width)

    def __str__(self) -> str:
        return f"image_local_2d({self.width}, {self.rows}, {self.columns}, {self.above}, {self.beside})"
