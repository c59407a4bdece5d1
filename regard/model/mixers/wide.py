"""Attention with wide blocks shared out: copies are made for every chunk of a text, and what they answer is put together.

Softmax over all keys is that over each chunk, weighed by the chunks' sums (as Dao et al. 2022 put tiles together): the answer to
a wide query is the mean of its copies' answers, each with its share of exp(lse). Keys are seen once each, so that nothing has to
be put together; autograd adds the gradients of their copies. `patterns/wide.py` has the map that says who looks at which copy.

Dims: B batch, H heads, L tokens, K head width, P tokens of wide blocks, G chunks, E tokens of whole chunks and all copies.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from regard.model.patterns.wide import Wide

NOBODY = -1e30  # for the lse of who sees nobody, which is minus infinity, as a share that is 0 and has a gradient

Kernel = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


def mix(q_BHLK: Tensor, k_BHLK: Tensor, v_BHLK: Tensor, wide: Wide, kernel: Kernel) -> Tensor:
    """context_BHLK. The kernel has the map with the copies, and gives context_BHEK and lse_BHE."""
    context_BHEK, lse_BHE = kernel(*(with_copies(x, wide) for x in (q_BHLK, k_BHLK, v_BHLK)))
    return put_back(context_BHEK, lse_BHE, wide)[:, :, : q_BHLK.shape[2]]


def with_copies(x_BHLK: Tensor, wide: Wide) -> Tensor:
    """x_BHEK: the text, zeros up to whole chunks, and for every chunk all wide blocks."""
    batch, heads, length, width = x_BHLK.shape
    copies_BHPK = x_BHLK.gather(2, _rows(wide.places_BP, x_BHLK))
    parts = [x_BHLK, copies_BHPK.repeat(1, 1, wide.chunks, 1)]
    if short := wide.chunks * wide.chunk * wide.size - length:
        parts.insert(1, x_BHLK.new_zeros(batch, heads, short, width))
    return torch.cat(parts, 2)


def put_back(context_BHEK: Tensor, lse_BHE: Tensor, wide: Wide) -> Tensor:
    """context_BHEK with the answers to wide queries in their rows."""
    copies = wide.chunks, wide.places_BP.shape[1]
    first = wide.chunks * wide.chunk * wide.size
    context_BHGPK, lse_BHGP = context_BHEK[:, :, first:].unflatten(2, copies), lse_BHE[:, :, first:].unflatten(2, copies)
    share_BHGP = lse_BHGP.masked_fill(lse_BHGP == -torch.inf, NOBODY).softmax(2)
    answer_BHPK = (share_BHGP[..., None] * context_BHGPK).sum(2).to(context_BHEK.dtype)
    return context_BHEK.scatter(2, _rows(wide.answers_BP, answer_BHPK), answer_BHPK)


def _rows(at_BP: Tensor, like_BHLK: Tensor) -> Tensor:
    """As gather and scatter want them."""
    batch, heads, _, width = like_BHLK.shape
    return at_BP[:, None, :, None].expand(batch, heads, -1, width)
