"""A view: a pattern laid over real lengths, and what kernels need of it. Made once a pass and shared by all layers of a stack."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from regard.model.sparse.blocks import Blocks

if TYPE_CHECKING:
    from regard.core.packing import Packing
    from regard.model.visibility.base import Visibility

Reach = tuple[int, int]  # how many positions before and after its own a query sees; -1 is any number


class Packed(NamedTuple):
    """What a kernel for variable lengths needs of a pattern: where sequences start, and how far each query reaches in its own."""

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

    def farthest(self) -> int:
        """Return a bound, known to the host, of how far apart a query and a key can be."""
        return max(self.length + (self.offset if isinstance(self.offset, int) else self.memory), self.memory)

    def rendered(self) -> View:
        """With a dense mask, for a kernel that takes one."""
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
