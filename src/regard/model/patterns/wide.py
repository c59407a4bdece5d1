"""Blocks that look at everything, or are looked at by everything, shared out: no row and no column of the map is then long.

One program of FlexAttention computes one block of queries, and backwards one of queries or of keys, and lasts as long as the row
or column of the map; BigBird's first and last block last as long as the text. So a text is cut into chunks, and behind it come
copies of its wide blocks, one for every chunk. As queries, a chunk's copies look at the keys of this chunk only, and what they
answer is put together afterwards (`mixers/wide.py`). As keys, they are looked at by the queries of this chunk only, which see
wide blocks nowhere else. Every pair is still computed exactly once.

Which blocks are wide decides about time and about nothing else: every pair is still asked of the pattern.

Dims: B batch, N blocks of a text, filled up to whole chunks; W wide ones, G chunks, C blocks of a chunk, S size of a block,
P = W S tokens of wide blocks, E = N + G W blocks with all copies.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

if TYPE_CHECKING:
    from regard.model.patterns.seeing import Visibility

CHUNK = 2048  # tokens: of the longest row and column, and few enough copies (6% of BigBird's keys)
TILE = 128  # FlexAttention asks about the end of a sequence in every tile, unless all lengths are multiples of this

Sees = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


class Wide(NamedTuple):
    size: int
    chunk: int  # blocks of one
    chunks: int
    numbers_BW: Tensor  # of wide blocks; -1 where a text has fewer
    places_BP: Tensor  # of their tokens in the text; of a block that is not there, any
    slots_BL: Tensor  # of each token of the text, its number among these; -1 of those that are not wide

    @property
    def tokens(self) -> int:
        """Of the text, filled up, and all copies."""
        return self.chunks * (self.chunk + self.numbers_BW.shape[1]) * self.size


def wide_of(pattern: Visibility, length: int, size: int, *, batch: int, device: torch.device, chunk: int = CHUNK) -> Wide | None:
    """`chunk` counts tokens. None where the pattern has nothing wide."""
    b_B1 = torch.arange(batch if pattern.varies else 1, device=device)[:, None]
    if (named_BW := pattern.wide(b_B1, size)) is None:
        return None
    numbers_BW = _each_once(named_BW, -(-length // size))
    numbers_BW = F.pad(numbers_BW, (0, -numbers_BW.shape[1] % max(1, TILE // size)), value=-1)
    each, chunks = chunk // size, -(-length // chunk)
    places_BWS = numbers_BW.clamp(min=0)[..., None] * size + torch.arange(size, device=device)
    token_L = torch.arange(length, device=device)
    is_BWL = numbers_BW[..., None] == token_L // size
    slots_BL = (is_BWL.int().argmax(1) * size + token_L % size).masked_fill(~is_BWL.any(1), -1)
    return Wide(size, each, chunks, numbers_BW, places_BWS.clamp(max=length - 1).flatten(1), slots_BL)


def _each_once(named_BW: Tensor, blocks: int) -> Tensor:
    """-1 for one that was named before, as the only block of a short text is its first and its last, or is not there."""
    number_W = torch.arange(named_BW.shape[1], device=named_BW.device)
    again_BW = ((named_BW[:, :, None] == named_BW[:, None]) & (number_W[:, None] > number_W)).any(-1)
    return named_BW.masked_fill(again_BW | (named_BW < 0) | (named_BW >= blocks), -1)


def shared_out(seen_BQN: Tensor, wide: Wide) -> Tensor:
    """seen_BEE of a map of blocks: between the text and the copies, in this order."""
    blocks, many, device = wide.chunk * wide.chunks, wide.numbers_BW.shape[1], seen_BQN.device
    missing = blocks - seen_BQN.shape[1]
    seen_BNN = F.pad(seen_BQN, (0, missing, 0, missing)).expand(len(wide.numbers_BW), -1, -1)
    there_BW, number_BW = wide.numbers_BW >= 0, wide.numbers_BW.clamp(min=0)
    narrow_BN = ~(torch.arange(blocks, device=device) == wide.numbers_BW[..., None]).any(1)
    by_copies_BWN = seen_BNN.gather(1, number_BW[..., None].expand(-1, -1, blocks)) & there_BW[..., None]
    of_copies_BNW = seen_BNN.gather(2, number_BW[:, None].expand(-1, blocks, -1)) & there_BW[:, None] & narrow_BN[..., None]
    chunk_G = torch.arange(wide.chunks, device=device)
    chunk_N, chunk_X = chunk_G.repeat_interleave(wide.chunk), chunk_G.repeat_interleave(many)  # X = G W copies
    own_NX = chunk_N[:, None] == chunk_X
    to_text_BNN = seen_BNN & narrow_BN[:, None] & narrow_BN[..., None]
    to_copies_BNX = of_copies_BNW.repeat(1, 1, wide.chunks) & own_NX
    from_copies_BXN = by_copies_BWN.repeat(1, wide.chunks, 1) & own_NX.mT
    nothing_BXX = from_copies_BXN.new_zeros(len(seen_BNN), len(chunk_X), len(chunk_X))
    return torch.cat([torch.cat([to_text_BNN, to_copies_BNX], 2), torch.cat([from_copies_BXN, nothing_BXX], 2)], 1)


def asked(sees: Sees, wide: Wide, memory: int) -> Sees:
    """The same of places with the copies. A copy does not end where the text does, so that is asked, too."""
    size, text_N = wide.size, torch.arange(wide.chunk * wide.chunks, device=wide.numbers_BW.device)
    copies_BX = wide.numbers_BW.clamp(min=0).repeat(1, wide.chunks)
    block_BE = torch.cat([text_N.expand(len(copies_BX), -1), copies_BX], 1).to(torch.int32)
    apart = int(len(block_BE) > 1)

    def place(b: Tensor, at: Tensor) -> Tensor:
        return block_BE[b * apart, at // size] * size + at % size

    def inside(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        key = place(b, j)
        return sees(b, h, place(b, i), key) & (key < memory)

    return inside
