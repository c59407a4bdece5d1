"""Sparse patterns as values: blocks, strides, summaries, global tokens and neighbours in an image. `bigbird.py` has random ones.

Child et al. 2019 (strided, fixed); Beltagy et al. 2020 (global). Kernels leave out whole blocks, so what would leave out a token
here and one there, a stride, comes in blocks of tokens too; with blocks of 1 it is the paper's, and dense to compute. All heads
and layers see alike.

What patterns have in common that depend on where a sequence ends: `with_length` sets it, and until
then they show what every length shows.

In an image, whose pixels are read row by row, neighbours are those of the Image Transformer (Parmar et al. 2018): pixels come in
blocks, and a block sees itself and a margin around it. The paper's decoder looks back only, at the margin before a block; that is
`causal &` of this.

Dims: Y X rows and columns of the image.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd
from typing import Any

import torch
from torch import Tensor

from regard.model.sparse.blocks import Between, Span, at_most, within
from regard.model.visibility import End, Visibility


class NeedsLength(Visibility):
    """A frozen dataclass of which one field is the end."""

    end: End

    @property
    def varies(self) -> bool:  # type: ignore[override]
        return isinstance(self.end, Tensor)

    def with_length(self, end: End) -> Visibility:
        told: Any = self
        return replace(told, end=end)

    def ends(self, b: Tensor) -> int | Tensor:
        """Return the end of sequence b."""
        assert self.end is not None
        return self.end if isinstance(self.end, int) else self.end[b]


@dataclass(frozen=True)
class Block(Visibility):
    """Blocks of `size` tokens: a query sees its own, and those at most `radius` blocks away."""

    size: int
    radius: int = 0
    sees_itself = True

    @property
    def block_size(self) -> int:  # type: ignore[override]
        return self.size

    def sees(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return (i // self.size - j // self.size).abs() <= self.radius

    def between(self, b: Tensor, queries: Span, keys: Span) -> Between:
        return at_most(self.radius, queries.in_blocks(self.size), keys.in_blocks(self.size))

    def __str__(self) -> str:
        return f"block({self.size})" if not self.radius else f"block({self.size}, {self.radius})"


@dataclass(frozen=True)
class Strided(Visibility):
    """Every `stride`-th block of `block` tokens, counted from the query's own."""

    stride: int
    block: int = 1
    sees_itself = True

    @property
    def block_size(self) -> int:  # type: ignore[override]
        return self.block

    @property
    def relative(self) -> bool:  # type: ignore[override]
        return self.block == 1

    def sees(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return (i // self.block - j // self.block) % self.stride == 0

    def between(self, b: Tensor, queries: Span, keys: Span) -> Between:
        (first, last, _), (first_key, last_key, _) = queries.in_blocks(self.block), keys.in_blocks(self.block)
        least, most = first - last_key, last - first_key
        some = most // self.stride * self.stride >= least
        return Between(some, some & ((least == most) | (self.stride == 1)))

    def __str__(self) -> str:
        return f"strided({self.stride})" if self.block == 1 else f"strided({self.stride}, {self.block})"


@dataclass(frozen=True)
class Summary(Visibility):
    """The last `count` tokens of every `period`, which have seen what came before them: the columns of the fixed pattern."""

    period: int
    count: int

    @property
    def block_size(self) -> int:  # type: ignore[override]
        return gcd(self.period, self.count)

    def sees(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return (j % self.period >= self.period - self.count) & (i >= 0)

    def between(self, b: Tensor, queries: Span, keys: Span) -> Between:
        place, border = keys.first % self.period, self.period - self.count
        wait = (border - place).clamp(min=0)  # positions until the next one that is seen
        some = (keys.first + wait <= keys.last) & (queries.first >= 0)
        return Between(some, (wait == 0) & (keys.last - keys.first < self.period - place) & some)

    def __str__(self) -> str:
        return f"summary({self.period}, {self.count})"


@dataclass(frozen=True)
class Global(Visibility):
    """The first `count` tokens see all tokens and are seen by all."""

    count: int
    sees_first = True

    @property
    def block_size(self) -> int:  # type: ignore[override]
        return self.count

    def sees(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return (i < self.count) | (j < self.count)

    def between(self, b: Tensor, queries: Span, keys: Span) -> Between:
        return within(0, self.count - 1, queries).either(within(0, self.count - 1, keys))

    def wide(self, b_B1: Tensor, size: int) -> Tensor:
        return b_B1 * 0 + torch.arange(-(-self.count // size), device=b_B1.device)

    def __str__(self) -> str:
        return f"global_({self.count})"


@dataclass(frozen=True)
class Last(NeedsLength):
    """The last `count` blocks of a sequence see all tokens and are seen by all; none where the length is not known."""

    size: int
    count: int = 1
    end: End = None

    @property
    def block_size(self) -> int:  # type: ignore[override]
        return self.size

    def sees(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        first, last = self._range(b)
        query, key = i // self.size, j // self.size
        return ((query >= first) & (query <= last)) | ((key >= first) & (key <= last))

    def between(self, b: Tensor, queries: Span, keys: Span) -> Between:
        blocks = self._range(b)
        return within(*blocks, queries.in_blocks(self.size)).either(within(*blocks, keys.in_blocks(self.size)))

    def wide(self, b_B1: Tensor, size: int) -> Tensor | None:
        if self.end is None:
            return None
        first, tokens = self._range(b_B1)[0] * self.size // size, self.size * self.count
        many = tokens // size if self.size % size == 0 else (tokens - 1) // size + 2
        return b_B1 * 0 + first + torch.arange(many, device=b_B1.device)

    def _range(self, b: Tensor) -> tuple[Tensor | int, Tensor | int]:
        """Return the range of the last blocks; empty where the length is not known."""
        if self.end is None:
            return 0, -1
        last = (self.ends(b) - 1) // self.size
        return last - self.count + 1, last

    def __str__(self) -> str:
        return f"last({self.size})" if self.count == 1 else f"last({self.size}, {self.count})"


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
