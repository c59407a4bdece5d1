"""Global blocks, which see or are seen by everything, split into chunks, so that no row or column of the map is long.

One program of FlexAttention computes one block of queries, and backwards one of queries or of keys, and lasts as long as the row
or column of the map; BigBird's first and last block last as long as the text. So a text is cut into chunks, and behind it come
copies of its wide blocks, one for every chunk. As queries, a chunk's copies look at the keys of this chunk only, and what they
answer is put together afterwards (`mixers/wide.py`). As keys, they are looked at by the queries of this chunk only, which see
wide blocks nowhere else. Every pair is still computed exactly once.

Which blocks are wide decides about time and about nothing else: every pair is still asked of the pattern.

Dims: B batch, N blocks of a text, filled up to whole chunks; W wide ones, G chunks, C blocks of a chunk, S size of a block,
P = W S tokens of wide blocks, E = N + G W blocks with all copies.

Attention with wide blocks shared out: copies are made for every chunk of a text, and what they answer is put together.

Softmax over all keys is that over each chunk, weighed by the chunks' sums (as Dao et al. 2022 put tiles together): the answer to
a wide query is the mean of its copies' answers, each with its share of exp(lse). Keys are seen once each, so that nothing has to
be put together; the gradients of their copies are added. `patterns/wide.py` has the map that says who looks at which copy.

Dims: B batch, H heads, L tokens, K head width, P tokens of wide blocks, G chunks, E tokens of whole chunks and all copies.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function

if TYPE_CHECKING:
    from regard.model.visibility import Visibility

CHUNK = 2048  # tokens: of the longest row and column, and few enough copies (6% of BigBird's keys)
TILE = 128  # FlexAttention asks about the end of a sequence in every tile, unless all lengths are multiples of this

Sees = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


class SplitGlobal(NamedTuple):
    size: int
    chunk: int  # blocks of one
    chunks: int
    numbers_BW: Tensor  # of wide blocks; -1 where a text has fewer
    places_BP: Tensor  # of their tokens in the text; of a block that is not there, any
    slots_BL: Tensor  # of each token of the text, its number among these; -1 of those that are not wide

    @property
    def tokens(self) -> int:
        """Number of tokens of the padded text and all copies."""
        return self.chunks * (self.chunk + self.numbers_BW.shape[1]) * self.size


def wide_of(
    pattern: Visibility, length: int, size: int, *, batch: int, device: torch.device, chunk: int = CHUNK
) -> SplitGlobal | None:
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
    return SplitGlobal(size, each, chunks, numbers_BW, places_BWS.clamp(max=length - 1).flatten(1), slots_BL)


def _each_once(named_BW: Tensor, blocks: int) -> Tensor:
    """-1 for one that was named before, as the only block of a short text is its first and its last, or is not there."""
    number_W = torch.arange(named_BW.shape[1], device=named_BW.device)
    again_BW = ((named_BW[:, :, None] == named_BW[:, None]) & (number_W[:, None] > number_W)).any(-1)
    return named_BW.masked_fill(again_BW | (named_BW < 0) | (named_BW >= blocks), -1)


def shared_out(seen_BQN: Tensor, wide: SplitGlobal) -> Tensor:
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


def asked(sees: Sees, wide: SplitGlobal, memory: int) -> Sees:
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


NO_KEY = -1e30  # replaces the lse of a query without keys, minus infinity: its share is 0 and has a gradient

Kernel = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


def mix(q_BHLK: Tensor, k_BHLK: Tensor, v_BHLK: Tensor, wide: SplitGlobal, kernel: Kernel) -> Tensor:
    """Return context_BHLK. The kernel has the map with the copies, and gives context_BHEK and lse_BHE."""
    places, (chunks, text) = (wide.places_BP, wide.slots_BL), (wide.chunks, wide.chunks * wide.chunk * wide.size)
    context_BHEK, lse_BHE = kernel(*(WithCopies.apply(x, *places, chunks, text) for x in (q_BHLK, k_BHLK, v_BHLK)))
    copies = chunks, wide.places_BP.shape[1]
    context_BHGPK, lse_BHGP = context_BHEK[:, :, text:].unflatten(2, copies), lse_BHE[:, :, text:].unflatten(2, copies)
    share_BHGP = lse_BHGP.masked_fill(lse_BHGP == -torch.inf, NO_KEY).softmax(2)
    answer_BHPK = (share_BHGP[..., None] * context_BHGPK).sum(2).to(context_BHEK.dtype)
    return PutBack.apply(context_BHEK, answer_BHPK, *places)


class WithCopies(Function):
    """x_BHEK: the text, zeros up to whole chunks, and for every chunk all wide blocks. Copies' gradients are added to theirs.

    By autograd that would be a sum of two tensors as large as the text, one of them nearly all zeros, for q, k and v each.
    """

    @staticmethod
    def forward(ctx: Any, x_BHLK: Tensor, places_BP: Tensor, slots_BL: Tensor, chunks: int, text: int) -> Tensor:
        ctx.save_for_backward(slots_BL)
        ctx.chunks, ctx.text = chunks, text
        filler = x_BHLK.new_zeros(*x_BHLK.shape[:2], text - x_BHLK.shape[2], x_BHLK.shape[3])
        copies_BHPK = x_BHLK.gather(2, _rows(places_BP, x_BHLK))
        return torch.cat([x_BHLK, filler, copies_BHPK.repeat(1, 1, chunks, 1)], 2)

    @staticmethod
    def backward(ctx: Any, g_BHEK: Tensor) -> tuple[Tensor, None, None, None, None]:
        (slots_BL,) = ctx.saved_tensors
        precise = torch.promote_types(g_BHEK.dtype, torch.float32)
        g_BHPK = g_BHEK[:, :, ctx.text :].unflatten(2, (ctx.chunks, -1)).sum(2, dtype=precise)
        g_BHLK = g_BHEK[:, :, : slots_BL.shape[1]]
        added_BHLK = _by_slot(g_BHPK, slots_BL).masked_fill(~_wide(slots_BL), 0.0)
        return (g_BHLK + added_BHLK).to(g_BHEK.dtype), None, None, None, None


class PutBack(Function):
    """context_BHLK with the answers to wide queries in their rows, from the copies' on no more."""

    @staticmethod
    def forward(ctx: Any, context_BHEK: Tensor, answer_BHPK: Tensor, places_BP: Tensor, slots_BL: Tensor) -> Tensor:
        ctx.save_for_backward(places_BP, slots_BL)
        ctx.tokens = context_BHEK.shape[2]
        return torch.where(_wide(slots_BL), _by_slot(answer_BHPK, slots_BL), context_BHEK[:, :, : slots_BL.shape[1]])

    @staticmethod
    def backward(ctx: Any, g_BHLK: Tensor) -> tuple[Tensor, Tensor, None, None]:
        places_BP, slots_BL = ctx.saved_tensors
        narrow_BHLK = g_BHLK.masked_fill(_wide(slots_BL), 0.0)
        # of a block that is not there, and of tokens behind the text, nothing was put back
        there_BP = slots_BL.gather(1, places_BP) == torch.arange(places_BP.shape[1], device=places_BP.device)
        g_BHPK = g_BHLK.gather(2, _rows(places_BP, g_BHLK)).masked_fill(~there_BP[:, None, :, None], 0.0)
        return F.pad(narrow_BHLK, (0, 0, 0, ctx.tokens - g_BHLK.shape[2])), g_BHPK, None, None


def _wide(slots_BL: Tensor) -> Tensor:
    """wide_B1L1"""
    return (slots_BL >= 0)[:, None, :, None]


def _by_slot(x_BHPK: Tensor, slots_BL: Tensor) -> Tensor:
    """x_BHLK: of wide tokens their row, of others any."""
    return x_BHPK.gather(2, _rows(slots_BL.clamp(min=0), x_BHPK))


def _rows(at_BP: Tensor, like_BHLK: Tensor) -> Tensor:
    """Return indices in the shape that gather takes."""
    batch, heads, _, width = like_BHLK.shape
    return at_BP[:, None, :, None].expand(batch, heads, -1, width)
