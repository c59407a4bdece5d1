"""A pattern as a map of blocks: which blocks of keys each block of queries needs, and what is seen inside those not seen whole.

On a GPU the map is what FlexAttention is given; on a CPU it becomes a list of tiles, in groups of queries that need as many, so
that the few which look at everything do not make all others wait. Nothing here is larger than what is seen.

Dims: B batch, Q blocks of queries, N blocks of keys, S size of a block, T tiles that are needed, J jobs: blocks of queries that
need any.

What a pattern can say of two whole blocks of positions at once, without being asked about every pair.

A map of blocks is made of such answers: n / 64 blocks of queries against n / 64 of keys, never n x n. A pattern may be unsure,
and then says that some pair sees and that not every one does; kernels ask it about the pairs of such blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from regard.model.sparse.split_global import Sees, SplitGlobal, asked, shared_out, wide_of

if TYPE_CHECKING:
    from regard.model.visibility import Visibility

AT_ONCE = 2**22  # pairs that are asked about together


class Tiles(NamedTuple):
    """Tiles of a map, in the order of their jobs; jobs lie in groups that need the same number of tiles."""

    batch: int  # 1 where all sequences are alike
    size: int
    jobs_J: Tensor  # b Q + q
    keys_T: Tensor  # b N + n
    groups_G3: Tensor  # of each group: its jobs, the tiles of each, and whether it has a mask
    added_TSS: Tensor | None  # to the scores of the groups with masks, in their order; one row may stand for all of a tile
    fully_masked_B1L1: Tensor | None  # queries without a visible key: their masks are open, and their context must be set to zero


@dataclass(frozen=True, eq=False)
class Blocks:
    size: int
    some_BQN: Tensor  # True where any pair may see; B is 1 where all sequences are alike
    every_BQN: Tensor  # True where every pair does
    tiles: Tiles | None = None  # for the kernel on a CPU
    mask: Any = None  # for that on a GPU, a BlockMask
    wide: SplitGlobal | None = None  # what was shared out in the mask, and only there


def blocks_of(
    pattern: Visibility,
    length: int,
    memory: int,
    size: int,
    *,
    batch: int,
    offset: int,
    device: torch.device,
    shared: bool = False,
) -> Blocks:
    some_BQN, every_BQN = between_blocks(pattern, length, memory, size, batch=batch, offset=offset, device=device)
    if device.type == "cuda":
        wide = wide_of(pattern, length, size, batch=batch, device=device) if shared else None
        mask = block_mask(pattern, some_BQN, every_BQN, (length, memory), size, offset, wide)
        return Blocks(size, some_BQN, every_BQN, mask=mask, wide=wide)
    blocks = Blocks(size, some_BQN, every_BQN)
    return replace(blocks, tiles=tiles_of(pattern, blocks, length, memory, batch=batch, offset=offset))


def between_blocks(
    pattern: Visibility, length: int, memory: int, size: int, *, batch: int, offset: int, device: torch.device
) -> Between:
    """Return some_BQN and every_BQN. A block that ends behind the last key is never seen whole."""
    b_B11 = torch.arange(batch, device=device)[:, None, None]
    first_Q1 = offset + size * torch.arange(-(-length // size), device=device)[:, None]
    first_N = size * torch.arange(-(-memory // size), device=device)
    queries = Span(first_Q1, (first_Q1 + size - 1).clamp(max=offset + length - 1), size)
    last_N = first_N + size - 1
    some, every = pattern.between(b_B11, queries, Span(first_N, last_N.clamp(max=memory - 1), size))
    shape = (1,) * (3 - some.dim()) + tuple(some.shape)
    whole = torch.broadcast_shapes(shape, (len(first_Q1), len(first_N)))
    return Between(some.expand(whole), (every & (last_N < memory)).expand(whole))


def block_mask(
    pattern: Visibility,
    some_BQN: Tensor,
    every_BQN: Tensor,
    lengths: tuple[int, int],
    size: int,
    offset: int,
    wide: SplitGlobal | None = None,
) -> Any:
    """Build FlexAttention's BlockMask: the numbers of partially and of fully visible blocks, by queries and
    by keys. It would find the latter itself, but with numbers from the host, which no graph can record."""
    from torch.nn.attention.flex_attention import BlockMask  # half a second, that only a GPU is worth

    partial_BQN, whole_BQN, inside = some_BQN & ~every_BQN, some_BQN & every_BQN, _asking(pattern, size, offset)
    if wide is not None:
        partial_BQN, whole_BQN = (shared_out(part, wide) for part in (partial_BQN, whole_BQN))
        inside, lengths = asked(inside, wide, lengths[1]), (wide.tokens, wide.tokens)
    by_queries = (*_listed(partial_BQN), *_listed(whole_BQN))
    by_keys = (*_listed(partial_BQN.mT), *_listed(whole_BQN.mT))
    return BlockMask(lengths, *by_queries, *by_keys, (size, size), inside)


def _asking(pattern: Visibility, size: int, offset: int) -> Sees:
    """Parts without a border inside blocks are not asked, as all blocks that they see are seen whole. It would compile BigBird's
    chance into the kernels, which takes minutes."""
    aligned = isinstance(offset, int) and offset % size == 0
    asked = [part for part in pattern.parts if part.block_size % size or not aligned]

    def sees(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return reduce(torch.logical_and, (part.sees(b, h, i + offset, j) > 0 for part in asked), j >= 0)

    return sees


def _listed(needed_BQN: Tensor) -> tuple[Tensor, Tensor]:
    """Return how many are True in each row, and their columns before the others."""
    needed = needed_BQN[:, None].to(torch.int32).contiguous()
    return needed.sum(-1).to(torch.int32), needed.argsort(dim=-1, descending=True, stable=True).to(torch.int32)


def tiles_of(pattern: Visibility, blocks: Blocks, length: int, memory: int, *, batch: int, offset: int) -> Tiles:
    """Return the tiles of a map of blocks; a pattern that is the same for all sequences has one batch entry."""
    size, batch = blocks.size, batch if pattern.varies else 1
    some_BQN, every_BQN = (part.expand(batch, -1, -1) for part in (blocks.some_BQN, blocks.every_BQN))
    _, rows, columns = some_BQN.shape
    count_J, masked_J = some_BQN.sum(-1).flatten(), (some_BQN & ~every_BQN).any(-1).flatten()
    kind_J = 2 * count_J + masked_J
    jobs_J = kind_J.argsort(stable=True)
    jobs_J = jobs_J[count_J[jobs_J] > 0]
    kinds_G, jobs_G = torch.unique_consecutive(kind_J[jobs_J], return_counts=True)
    groups_G3 = torch.stack([jobs_G, kinds_G // 2, kinds_G % 2], 1)
    job_T, column_T = some_BQN.flatten(0, 1).nonzero().unbind(1)
    order_T = kind_J[job_T].argsort(stable=True)
    job_T, column_T = job_T[order_T], column_T[order_T]
    tiles = Tiles(batch, size, jobs_J, job_T // rows * columns + column_T, groups_G3, None, None)
    if not (asked_T := masked_J[job_T]).any():
        return tiles
    job_T, column_T = job_T[asked_T], column_T[asked_T]
    asked = _Asked(job_T // rows, offset + size * (job_T % rows), size * column_T, offset + length - 1, memory - 1)
    added_TSS = _seen_inside(pattern, asked, size).log()
    if pattern.sees_itself or pattern.sees_first:
        return tiles._replace(added_TSS=added_TSS)
    seen_TS = (added_TSS > -torch.inf).any(-1).float().expand(-1, size)
    seen_JS = torch.zeros(batch * rows, size, device=job_T.device).index_add_(0, job_T, seen_TS) > 0
    added_TSS = torch.where(seen_JS[job_T][..., None], added_TSS, 0.0)
    blind_JS = ~seen_JS & masked_J[:, None]
    return tiles._replace(added_TSS=added_TSS, fully_masked_B1L1=blind_JS.view(batch, 1, -1, 1)[:, :, :length])


class _Asked(NamedTuple):
    """Tiles: their sequence, first query and first key; no query and no key lies behind the last."""

    b_T: Tensor
    i_T: Tensor
    j_T: Tensor
    last_query: int
    last_key: int


def _seen_inside(pattern: Visibility, asked: _Asked, size: int) -> Tensor:
    """sees_TSS as numbers, or sees_T1S where all queries of a tile see alike. What has no border inside tiles is asked once."""
    place_S = torch.arange(size, device=asked.b_T.device)
    found = []
    for b_T, i_T, j_T in zip(*(part.split(max(1, AT_ONCE // size**2)) for part in asked[:3])):
        b, i, j = b_T[:, None, None], i_T[:, None, None], j_T[:, None, None]
        inside_i, inside_j = i + place_S[:, None], j + place_S
        sees = (inside_j <= asked.last_key).float()
        for part in pattern.parts:
            coarse = part.block_size % size == 0 and bool((i_T % size == 0).all())
            at = (i, j) if coarse else (inside_i.clamp(max=asked.last_query), inside_j.clamp(max=asked.last_key))
            sees = sees * part.sees(b, torch.zeros_like(b), *at)
        found.append(sees)
    return torch.cat(found)


class Span(NamedTuple):
    """Positions from the first to the last, both included; tensors of any shapes that broadcast."""

    first: Tensor
    last: Tensor
    most: int  # positions of the longest one

    def in_blocks(self, size: int) -> Span:
        return Span(self.first // size, self.last // size, (self.most - 1) // size + 2)


class Between(NamedTuple):
    """Visibility between two spans: `some` pair may be visible, `every` pair is."""

    some: Tensor
    every: Tensor

    def both(self, other: Between) -> Between:
        return Between(self.some & other.some, self.every & other.every)

    def either(self, other: Between) -> Between:
        return Between(self.some | other.some, self.every | other.every)


def unsure(queries: Span, keys: Span) -> Between:
    some = (queries.first >= 0) & (keys.first >= 0)
    return Between(some, ~some)


def at_most(radius: int, queries: Span, keys: Span) -> Between:
    """Positions no further apart than this."""
    gap = torch.maximum(keys.first - queries.last, queries.first - keys.last)
    reach = torch.maximum(queries.last - keys.first, keys.last - queries.first)
    return Between(gap <= radius, reach <= radius)


def within(first: Tensor | int, last: Tensor | int, span: Span) -> Between:
    """Positions of one span alone: from the first to the last of a range, which is empty where last < first."""
    return Between((span.last >= first) & (span.first <= last), (span.first >= first) & (span.last <= last))
