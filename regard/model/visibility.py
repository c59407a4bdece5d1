"""Visibility: who may look at whom. A small value that can be compared, printed and combined with & and |.

A pattern answers one question, `sees(b, h, i, j)`: in sequence b and head h, may the query at position i look at the key at
position j? The arguments are index tensors of any shapes that broadcast, so the same line of code answers for one pair,
renders a dense mask, and is the mask function FlexAttention asks for. Masking adds 0 or minus infinity to the scores
(Vaswani et al. 2017, section 3.2.3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

if TYPE_CHECKING:
    from regard.data.packing import Packing

Reach = tuple[int, int]  # how many positions before and after its own a query sees; -1 is any number


class Packed(NamedTuple):
    """What a kernel for variable lengths needs of a pattern: where sequences start, and how far each query reaches in its own."""

    queries: Packing
    keys: Packing
    reach: Reach


class Visibility:
    """The combinators every pattern shares. `full` disappears from a conjunction, so it never costs a mask."""

    # What a pattern promises of every query: that it sees its own position, or the first key. Either keeps it from seeing nobody.
    sees_itself: bool = False
    sees_first: bool = False
    reach: Reach | None = None  # where the pattern is that simple
    packing: tuple[Packing, Packing] | None = None  # of queries and keys, where sequences are packed into rows

    def sees(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        raise NotImplementedError

    def __and__(self, other: Visibility) -> Visibility:
        if isinstance(self, Full):
            return other
        return self if isinstance(other, Full) else Both(self, other)

    def __or__(self, other: Visibility) -> Visibility:
        return full if isinstance(self, Full) or isinstance(other, Full) else Either(self, other)

    def over(self, length: int, memory: int, *, batch: int = 1, offset: int | Tensor = 0, device: torch.device) -> View:
        """Lay the pattern over `length` queries, the first at position `offset`, and `memory` keys from position 0."""
        if isinstance(self, Full):
            return View(self, batch, length, memory, offset, device)
        if isinstance(self, Causal) and length == memory and isinstance(offset, int) and offset == 0:
            return View(self, batch, length, memory, offset, device, causal=True)
        if self.packing is not None and self.reach is not None and device.type == "cuda":
            return View(self, batch, length, memory, offset, device, packed=Packed(*self.packing, self.reach))
        mask = dense(self, torch.arange(length, device=device), memory, batch=batch, offset=offset)
        if self.sees_itself or self.sees_first:
            return View(self, batch, length, memory, offset, device, mask)
        blind = ~mask.any(-1, keepdim=True)
        return View(self, batch, length, memory, offset, device, mask | blind, blind)


@dataclass(frozen=True)
class View:
    """A visibility laid over real lengths, made once per pass and shared by all layers of a stack."""

    visibility: Visibility
    batch: int
    length: int
    memory: int
    offset: int | Tensor
    device: torch.device
    mask: Tensor | None = None  # for the kernel: True where a query sees; broadcasts with scores_BHLM; None where none is needed
    blind: Tensor | None = None  # True for a query that sees nobody; its mask row is True, and its answer must be set to zero
    causal: bool = False  # the kernel's own triangle is the whole mask
    packed: Packed | None = None  # for a kernel of variable lengths, which needs no mask

    def rows(self, rows_R: Tensor) -> Tensor:
        """sees_BHRM for some of the queries: what the probe asks for, without rendering the rest."""
        rows_R = rows_R.to(self.device)
        return dense(self.visibility, rows_R, self.memory, batch=self.batch, offset=self.offset)


def dense(visibility: Visibility, queries_L: Tensor, memory: int, *, batch: int = 1, offset: int | Tensor = 0) -> Tensor:
    """The pattern as booleans that broadcast with scores_BHLM; dimensions it does not depend on stay 1."""
    device = queries_L.device
    b = torch.arange(batch, device=device)[:, None, None, None]
    h = torch.zeros(1, dtype=torch.long, device=device)[:, None, None]
    i = (queries_L + offset)[:, None]
    j = torch.arange(memory, device=device)
    sees = visibility.sees(b, h, i, j)
    return sees.reshape((1,) * (4 - sees.dim()) + tuple(sees.shape))


@dataclass(frozen=True)
class Full(Visibility):
    sees_itself = sees_first = True
    reach = (-1, -1)

    def sees(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return j >= 0

    def __str__(self) -> str:
        return "full"


@dataclass(frozen=True)
class Causal(Visibility):
    sees_itself = sees_first = True
    reach = (-1, 0)

    def sees(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return j <= i

    def __str__(self) -> str:
        return "causal"


@dataclass(frozen=True)
class Window(Visibility):
    """Neighbours at most `radius` positions away."""

    radius: int
    sees_itself = True

    @property
    def reach(self) -> Reach:  # type: ignore[override]
        return self.radius, self.radius

    def sees(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return (i - j).abs() <= self.radius

    def __str__(self) -> str:
        return f"window({self.radius})"


@dataclass(frozen=True, eq=False)
class Padding(Visibility):
    """Only the first lengths_B[b] keys of sequence b are words; the rest is padding."""

    lengths_B: Tensor
    sees_first = True

    def sees(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return j < self.lengths_B[b]

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
    sees_itself = True
    reach = (-1, -1)

    def sees(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return self.queries_BL[b, i] == self.keys_BM[b, j]

    def __str__(self) -> str:
        return "documents"


@dataclass(frozen=True, eq=False)
class Given(Visibility):
    """A pattern that is simply given, such as the ancestors of each hypothesis in a search."""

    sees_BLM: Tensor
    sees_itself = True

    def sees(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return self.sees_BLM[b, i, j]

    def __str__(self) -> str:
        return "given"


@dataclass(frozen=True)
class Both(Visibility):
    left: Visibility
    right: Visibility

    @property
    def sees_itself(self) -> bool:  # type: ignore[override]
        return self.left.sees_itself and self.right.sees_itself

    @property
    def sees_first(self) -> bool:  # type: ignore[override]
        return self.left.sees_first and self.right.sees_first

    @property
    def reach(self) -> Reach | None:  # type: ignore[override]
        if self.left.reach is None or self.right.reach is None:
            return None
        before, after = (min(pair, key=lambda n: (n < 0, n)) for pair in zip(self.left.reach, self.right.reach))
        return before, after

    @property
    def packing(self) -> tuple[Packing, Packing] | None:  # type: ignore[override]
        return self.left.packing or self.right.packing

    def sees(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return self.left.sees(b, h, i, j) & self.right.sees(b, h, i, j)

    def __str__(self) -> str:
        return f"({self.left} & {self.right})"


@dataclass(frozen=True)
class Either(Visibility):
    left: Visibility
    right: Visibility

    @property
    def sees_itself(self) -> bool:  # type: ignore[override]
        return self.left.sees_itself or self.right.sees_itself

    @property
    def sees_first(self) -> bool:  # type: ignore[override]
        return self.left.sees_first or self.right.sees_first

    def sees(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return self.left.sees(b, h, i, j) | self.right.sees(b, h, i, j)

    def __str__(self) -> str:
        return f"({self.left} | {self.right})"


def documents(ids_BM: Tensor) -> Documents:
    """Among tokens of the same rows."""
    return Documents(ids_BM, ids_BM)


full = Full()
causal = Causal()
window = Window
padding = Padding
given = Given
