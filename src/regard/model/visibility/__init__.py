"""Visibility: which keys a query may attend to, as a small value that can be compared, printed and combined with & and |.

A pattern answers one question, `sees(b, h, i, j)`: in sequence b and head h, may the query at position i look at the key at
position j? The arguments are index tensors of any shapes that broadcast, so the same line of code answers for one pair,
renders a dense mask, and is the mask function FlexAttention asks for. Masking adds 0 or minus infinity to the scores
(Vaswani et al. 2017, section 3.2.3). Of whole blocks of positions a pattern answers at once (`between`), which is all that a
sparse kernel needs to leave blocks out; patterns that leave most of them out are in `patterns.py`.

A `View` is a pattern laid over real lengths, with what kernels need of it: made once a pass, shared by all layers of a stack.
Here are the patterns that every model uses; sparse ones are in `patterns.py`, conjunctions and alternatives in `combine.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.packing import Packing, Pieces, Words
from regard.model.sparse.blocks import Between, Blocks, Span, at_most, blocks_of, unsure
from regard.model.sparse.dispatch import choose

Reach = tuple[int, int]  # how many positions before and after its own a query sees; -1 is any number


class Packed(NamedTuple):
    """Inputs of a kernel for variable lengths: where sequences start, and how far each query reaches in its own."""

    queries: Packing
    keys: Packing
    reach: Reach


@dataclass(frozen=True)
class View:
    visibility: Visibility
    batch: int
    length: int
    memory: int
    offset: int | Tensor
    device: torch.device
    mask: Tensor | None = None  # for the kernel: True where a query sees; broadcasts with scores_BHLM; None where none is needed
    fully_masked_rows: Tensor | None = None  # True for a query that sees no key: its mask row is True, its context set to zero
    causal: bool = False  # the kernel's own triangle is the whole mask
    packed: Packed | None = None  # for a kernel of variable lengths, which needs no mask
    blocks: Blocks | None = None  # for a kernel that leaves blocks out
    places: Callable[[], tuple[Tensor, Tensor]] | None = None  # positions of queries and keys, where they are not those of rows

    @property
    def by_blocks(self) -> bool:
        """Is attention computed block by block, so that no matrix of all pairs is made?"""
        return self.blocks is not None or self.packed is not None

    def positions(self) -> tuple[Tensor, Tensor]:
        """Return positions_BL of the queries and positions_BM of the keys; B is 1 where all rows are alike.

        They count from the start of a row, or of a document where several share a row, or of a text that is being decoded.
        """
        if self.places is not None:
            return self.places()
        if (own := next((part.places for part in self.visibility.parts if part.places is not None), None)) is not None:
            return own
        queries_L, keys_M = (torch.arange(n, device=self.device) for n in (self.length, self.memory))
        return (queries_L + self.offset)[None], keys_M[None]

    @property
    def in_order(self) -> bool:
        """Return whether positions are those of rows, and the host knows them."""
        return self.places is None and isinstance(self.offset, int) and all(part.places is None for part in self.visibility.parts)

    def farthest(self) -> int:
        """Return a bound, known to the host, of how far apart the positions of a query and a key can be."""
        if self.packed is not None:
            return max(self.packed.queries.longest, self.packed.keys.longest)
        return max(self.length + (self.offset if isinstance(self.offset, int) else self.memory), self.memory)

    def rendered(self) -> View:
        """Return the view with a dense mask, for a kernel that takes one; on the meta device no kernel does."""
        if self.device.type == "meta":
            return replace(self, blocks=None)
        sees = reduce(torch.mul if self.visibility.counts else torch.logical_and, map(self._whole, self.visibility.parts))
        mask = sees.log() if self.visibility.counts else sees
        if self.visibility.sees_itself or self.visibility.sees_first:
            return replace(self, mask=mask, blocks=None)
        blind = ~sees.any(-1, keepdim=True)
        mask = mask.masked_fill(blind, 0.0) if self.visibility.counts else mask | blind
        return replace(self, mask=mask, fully_masked_rows=blind, blocks=None)

    def _whole(self, part: Visibility) -> Tensor:
        """sees_BHLM of one of those that must agree. What has no border inside blocks is asked once for each of them."""
        size = part.block_size if isinstance(self.offset, int) and part.block_size and self.offset % part.block_size == 0 else 1
        i_Q, j_N = (torch.arange(0, n, size, device=self.device) for n in (self.length, self.memory))
        sees = asked(part, i_Q + self.offset, j_N, self.batch)
        for dim, places in ((2, self.length), (3, self.memory)):
            if size > 1 and sees.shape[dim] > 1:  # what is alike for all stays 1
                sees = sees.repeat_interleave(size, dim).narrow(dim, 0, places)
        return sees

    def rows(self, rows_R: Tensor) -> Tensor:
        """sees_BHRM for some of the queries: what the probe asks for, without rendering the rest. Where some keys are seen more
        than once, how many times."""
        rows_R = rows_R.to(self.device)
        return dense(self.visibility, rows_R, self.memory, batch=self.batch, offset=self.offset)


def dense(visibility: Visibility, queries_L: Tensor, memory: int, *, batch: int = 1, offset: int | Tensor = 0) -> Tensor:
    """The pattern as booleans that broadcast with scores_BHLM; dimensions it does not depend on stay 1."""
    return asked(visibility, queries_L + offset, torch.arange(memory, device=queries_L.device), batch)


def asked(visibility: Visibility, i_L: Tensor, j_M: Tensor, batch: int) -> Tensor:
    """sees_BHLM of these positions."""
    b = torch.arange(batch, device=i_L.device)[:, None, None, None]
    h = torch.zeros(1, dtype=torch.long, device=i_L.device)[:, None, None]
    sees = visibility.sees(b, h, i_L[:, None], j_M)
    return sees.reshape((1,) * (4 - sees.dim()) + tuple(sees.shape))


End = int | Tensor | None  # where sequences end: all alike, each at its own end_B, or not known yet


class Visibility:
    """The combinators every pattern shares. `full` disappears from a conjunction, so it never costs a mask."""

    # What a pattern promises of every query: that it sees its own position, or the first key. Either leaves no row fully masked.
    sees_itself: bool = False
    sees_first: bool = False
    reach: Reach | None = None  # where the pattern is that simple
    packing: tuple[Packing, Packing] | None = None  # of queries and keys, where sequences are packed into rows
    lengths_B: Tensor | None = None  # of padded sequences
    places: tuple[Tensor, Tensor] | None = None  # of queries and keys in documents of their own, where several share a row
    looks_back: bool = False  # never ahead of its own position
    relative: bool = False  # asks only how far apart two positions are
    varies: bool = False  # from one sequence of a batch to the next
    counts: bool = False  # `sees` says how many times a key is seen, not only whether
    block_size: int = 1  # borders lie at multiples of this only, and between two of them `between` is exact; 0: there are none

    def sees(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        raise NotImplementedError

    def between(self, b: Tensor, queries: Span, keys: Span) -> Between:
        return unsure(queries, keys)

    def wide(self, b_B1: Tensor, size: int) -> Tensor | None:
        """Return number_BW of the blocks of this size in which a query sees all keys, or a key is seen by all queries, for
        kernels that share them out. One may be named twice, or not be there."""
        return None

    @property
    def parts(self) -> tuple[Visibility, ...]:
        """All of which must agree."""
        return (self,)

    @property
    def data_independent(self) -> Visibility:
        """The part of the pattern that holds for every batch: at least all pairs that are visible here."""
        return self

    def with_length(self, end: End) -> Visibility:
        """Return the pattern for sequences of this length; without one, pairs that are visible whatever the length is."""
        return self

    def __and__(self, other: Visibility) -> Visibility:
        if isinstance(self, Full):
            return other
        from regard.model.visibility.combine import Both, Placed

        if other.places is not None and not self.relative:
            return Both(Placed(self, *other.places), other)
        if self.places is not None and not other.relative:
            return Both(self, Placed(other, *self.places))
        return self if isinstance(other, Full) else Both(self, other)

    def __or__(self, other: Visibility) -> Visibility:
        from regard.model.visibility.combine import Either

        return full if isinstance(self, Full) or isinstance(other, Full) else Either(self, other)

    def over(
        self, length: int, memory: int, *, batch: int = 1, offset: int | Tensor = 0, device: torch.device, mask: bool = True
    ) -> View:
        """Lay the pattern over `length` queries, the first at position `offset`, and `memory` keys from position 0.

        Without a mask, for a mixer that never compares them.
        """
        settled = self.with_length(memory if self.lengths_B is None else self.lengths_B)
        if not mask:
            return View(settled, batch, length, memory, offset, device)
        return settled._over(length, memory, batch, offset, device)

    def _over(self, length: int, memory: int, batch: int, offset: int | Tensor, device: torch.device) -> View:
        if isinstance(self, Full):
            return View(self, batch, length, memory, offset, device)
        if isinstance(self, Causal) and length == memory and isinstance(offset, int) and offset == 0:
            return View(self, batch, length, memory, offset, device, causal=True)
        if self.packing is not None and self.reach is not None and device.type == "cuda":
            return View(self, batch, length, memory, offset, device, packed=Packed(*self.packing, self.reach))
        if isinstance(offset, int) and (choice := choose(self.data_independent, length, memory, offset, device.type)).size:
            sizes = length, memory, choice.size
            blocks = blocks_of(self, *sizes, batch=batch, offset=offset, device=device, shared=choice.shared)
            return View(self, batch, length, memory, offset, device, blocks=blocks)
        return View(self, batch, length, memory, offset, device).rendered()


@dataclass(frozen=True)
class Full(Visibility):
    sees_itself = sees_first = relative = True
    reach = (-1, -1)
    block_size = 0

    def sees(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return j >= 0

    def between(self, b: Tensor, queries: Span, keys: Span) -> Between:
        some = keys.first >= 0
        return Between(some, some)

    def __str__(self) -> str:
        return "full"


@dataclass(frozen=True)
class Causal(Visibility):
    sees_itself = sees_first = relative = looks_back = True
    reach = (-1, 0)

    def sees(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return j <= i

    def between(self, b: Tensor, queries: Span, keys: Span) -> Between:
        return Between(keys.first <= queries.last, keys.last <= queries.first)

    def __str__(self) -> str:
        return "causal"


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
        """Sure of spans that lie in one document each, and where numbers rise along a row, also of spans that share no number."""
        (asking, one), (asked, other) = _document(self.queries_BL, b, queries), _document(self.keys_BM, b, keys)
        sure, same = one & other, asking == asked
        some = ~sure | same
        if self.rising:
            some = (asking <= self.keys_BM[b, keys.last]) & (asked <= self.queries_BL[b, queries.last])
        return Between(some, sure & same)

    @property
    def rising(self) -> bool:
        """Return whether the numbers of documents rise along a row, as those of `core/packing.py` do."""
        return self.places is not None

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


def only_words(keys: Words, queries: Packing | None = None) -> Visibility:
    """Return the visibility of a batch's words: no padding, and of packed sequences only a query's own."""
    match keys:
        case Packing():
            queries = queries or keys
            places = queries.positions_T[None], keys.positions_T[None]
            return Documents(queries.ids_T[None], keys.ids_T[None], (queries, keys), places)
        case Pieces():
            return Documents(keys.ids_BL, keys.ids_BL, places=(keys.positions_BL, keys.positions_BL))
        case _:
            return padding(keys)


def positions(words: Words | None) -> Tensor | None:
    """None where every row starts at 0."""
    match words:
        case Packing():
            return words.positions_T
        case Pieces():
            return words.positions_BL
        case _:
            return None


full = Full()
causal = Causal()
window = Window
padding = Padding
given = Given
