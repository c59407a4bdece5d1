"""Visibility: who may look at whom. A small value that can be compared, printed and combined with & and |.

A pattern answers one question, `sees(b, h, i, j)`: in sequence b and head h, may the query at position i look at the key at
position j? The arguments are index tensors of any shapes that broadcast, so the same line of code answers for one pair,
renders a dense mask, and is the mask function FlexAttention asks for. Masking adds 0 or minus infinity to the scores
(Vaswani et al. 2017, section 3.2.3). Of whole blocks of positions a pattern answers at once (`between`), which is all that a
sparse kernel needs to leave blocks out; patterns that leave most of them out are in `patterns/`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch.nn.functional as F
from torch import Tensor

from regard.model.sparse.blocks import Between, Span, at_most
from regard.model.visibility.base import Both, Causal, Either, End, Full, Visibility, causal, full
from regard.model.visibility.mask import Packed, Reach, View, dense

if TYPE_CHECKING:
    from regard.core.packing import Packing

__all__ = ["Both", "Causal", "Documents", "Either", "End", "Full", "Given", "Packed", "Padding", "Reach", "View", "Visibility"]
__all__ += ["Window", "causal", "dense", "documents", "full", "given", "padding", "window"]


@dataclass(frozen=True)
class Window(Visibility):
    """Neighbours at most `radius` positions away."""

    radius: int
    sees_itself = relative = True

    @property
    def reach(self) -> Reach:  # type: ignore[override]
        return self.radius, self.radius

    def sees(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return (i - j).abs() <= self.radius

    def between(self, b: Tensor, queries: Span, keys: Span) -> Between:
        return at_most(self.radius, queries, keys)

    def __str__(self) -> str:
        return f"window({self.radius})"


@dataclass(frozen=True, eq=False)
class Padding(Visibility):
    """Only the first lengths_B[b] keys of sequence b are words; the rest is padding."""

    lengths_B: Tensor
    sees_first = varies = True

    def sees(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return j < self.lengths_B[b]

    def between(self, b: Tensor, queries: Span, keys: Span) -> Between:
        return Between(keys.first < self.lengths_B[b], keys.last < self.lengths_B[b])

    @property
    def data_independent(self) -> Visibility:
        return full

    def __str__(self) -> str:
        return "padding"


@dataclass(frozen=True, eq=False)
class Documents(Visibility):
    """Several documents packed into one row: a token sees only its own. Each token of queries and keys has its document's number.

    Every query's document must be among the keys.
    """

    queries_BL: Tensor
    keys_BM: Tensor
    packing: tuple[Packing, Packing] | None = None
    places: tuple[Tensor, Tensor] | None = None  # of queries and keys in their documents
    sees_itself = relative = varies = True
    reach = (-1, -1)

    def sees(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return self.queries_BL[b, i] == self.keys_BM[b, j]

    def between(self, b: Tensor, queries: Span, keys: Span) -> Between:
        """Sure of spans that lie in one document each."""
        (asking, one), (asked, other) = _document(self.queries_BL, b, queries), _document(self.keys_BM, b, keys)
        sure, same = one & other, asking == asked
        return Between(~sure | same, sure & same)

    @property
    def data_independent(self) -> Visibility:
        return full

    def __str__(self) -> str:
        return "documents"


@dataclass(frozen=True, eq=False)
class Given(Visibility):
    """A pattern that is simply given, such as the ancestors of each hypothesis in a search."""

    sees_BLM: Tensor
    sees_itself = varies = True

    def sees(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return self.sees_BLM[b, i, j]

    @property
    def data_independent(self) -> Visibility:
        return full

    def __str__(self) -> str:
        return "given"


def _document(ids_BL: Tensor, b: Tensor, span: Span) -> tuple[Tensor, Tensor]:
    """The number of a span's first document, and whether it is the only one."""
    borders_BL = F.pad((ids_BL[:, 1:] != ids_BL[:, :-1]).long().cumsum(1), (1, 0))
    return ids_BL[b, span.first], borders_BL[b, span.first] == borders_BL[b, span.last]


def documents(ids_BM: Tensor) -> Documents:
    """Among tokens of the same rows."""
    return Documents(ids_BM, ids_BM)


window = Window
padding = Padding
given = Given
