"""Attention by features to everything before: chunk by chunk, in products of matrices, at a cost that grows with the length.

Kept for every place, the sums of phi(k) v over all before it would be L matrices of F x K. So a sequence is cut into chunks:
within one, queries meet keys in a small triangle; what lies before it comes as one matrix a chunk, and those are summed in turn,
in groups of chunks first.

A query's sum is kept relative to the largest scale that *it* sees, so nothing that comes later changes a bit of what came before;
one largest scale for a whole sequence, as elsewhere, lets the future be felt. Where several documents lie in a row, a sum begins
anew with each.

Dims: B batch, H heads, L length, N chunks, C places of a chunk, F features, K head width; "..." any number of dimensions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.model.mixers.features import Features
from regard.model.mixers.sums import LEAST, NOTHING, Sums, empty, folded, weighted

CHUNK = 128  # places: of a larger chunk's triangle more is computed that nobody sees, of smaller ones more matrices are kept
GROUP = 16  # chunks whose matrices are summed by one product


class Segment(NamedTuple):
    """Some of a sequence; cut into chunks, L is N, C."""

    q_BHLF: Tensor
    k_BHLF: Tensor
    scale_BHL: Tensor  # of keys; of those that nobody may see, minus infinity
    v_BHLK: Tensor
    ids_B1L: Tensor | None = None  # of documents, none of them negative


class Carry(NamedTuple):
    """What came before."""

    sums: Sums
    id: Tensor | None  # of the document they are of


def causal_scan(part: Callable[[int, int], Segment], length: int, stride: int | None = None) -> Tensor:
    """context_BHLK: each place sees itself and all before it, of its own document; sums are in the type of the scales.

    `part` gives what lies between two places. With a stride, one segment is done after the other, in memory that a processor has
    at hand.
    """
    if stride is None:
        return _answered(part(0, length), None, goes_on=False)[0]
    found, carry = [], None
    for start in range(0, length, stride):
        context_BHLK, carry = _answered(part(start, min(start + stride, length)), carry, goes_on=start + stride < length)
        found.append(context_BHLK)
    return found[0] if len(found) == 1 else torch.cat(found, 2)


def _answered(segment: Segment, carry: Carry | None, goes_on: bool) -> tuple[Tensor, Carry | None]:
    length = segment.q_BHLF.shape[2]
    chunks = _cut(segment, CHUNK if length > CHUNK else length)
    if carry is None and length <= CHUNK and not goes_on:
        return _context(chunks, None)[:, :, :length], None
    ended_B1N = None if chunks.ids_B1L is None else chunks.ids_B1L[..., -1]
    items = _of_the_last(chunks, ended_B1N)
    carry = carry or Carry(empty(items), None if ended_B1N is None else torch.full_like(ended_B1N[..., 0], -1))
    before = Carry(_preceding(items, ended_B1N, carry), None if ended_B1N is None else _previous(ended_B1N, carry.id))
    context_BHLK = _context(chunks, before)[:, :, :length]
    if not goes_on:
        return context_BHLK, None
    everything, last = carry.sums.then(items), None if ended_B1N is None else ended_B1N[..., -1]
    return context_BHLK, Carry(_all(everything, None if ended_B1N is None else _after(carry.id, ended_B1N)), last)


def _cut(segment: Segment, chunk: int) -> Segment:
    """Filler behind the last place is of the last document; nobody sees it."""
    q_BHLF, k_BHLF, scale_BHL, v_BHLK, ids_B1L = segment
    more = -q_BHLF.shape[2] % chunk
    if more:
        q_BHLF, k_BHLF, v_BHLK = (F.pad(each, (0, 0, 0, more)) for each in (q_BHLF, k_BHLF, v_BHLK))
        scale_BHL = F.pad(scale_BHL, (0, more), value=-torch.inf)
        ids_B1L = None if ids_B1L is None else torch.cat([ids_B1L, ids_B1L[..., -1:].expand(-1, -1, more)], 2)
    whole = (q_BHLF, k_BHLF, scale_BHL, v_BHLK, ids_B1L)
    return Segment(*(None if each is None else each.unflatten(2, (-1, chunk)) for each in whole))  # type: ignore[arg-type]


def _context(chunks: Segment, before: Carry | None) -> Tensor:
    """The triangle of each chunk, and what came before it."""
    q_BHNCF, k_BHNCF, scale_BHNC, v_BHNCK, ids_B1NC = chunks
    size = q_BHNCF.shape[3]
    sees_CC = torch.ones(size, size, dtype=torch.bool, device=q_BHNCF.device).tril()
    if ids_B1NC is not None:
        sees_CC = sees_CC & (ids_B1NC[..., None] == ids_B1NC[..., None, :])
    scale_BHNCC = scale_BHNC[..., None, :].masked_fill(~sees_CC, -torch.inf)
    peak_BHNC = scale_BHNCC.amax(-1).clamp_min(NOTHING)
    if before is not None:
        earlier_BHNC = before.sums.peak[..., None].expand_as(peak_BHNC)
        if before.id is not None:
            assert ids_B1NC is not None
            earlier_BHNC = earlier_BHNC.masked_fill(ids_B1NC != before.id[..., None], -torch.inf)
        peak_BHNC = torch.maximum(peak_BHNC, earlier_BHNC)
    weights_BHNCC = (q_BHNCF @ k_BHNCF.mT) * (scale_BHNCC - peak_BHNC[..., None]).exp()
    context_BHNCK = (weights_BHNCC.to(v_BHNCK) @ v_BHNCK).to(peak_BHNC)
    total_BHNC = weights_BHNCC.sum(-1)
    if before is not None:
        share_BHNC = (earlier_BHNC - peak_BHNC).exp()
        context_BHNCK = context_BHNCK + share_BHNC[..., None] * (q_BHNCF @ before.sums.values_FK.to(q_BHNCF))
        total_BHNC = total_BHNC + share_BHNC * (q_BHNCF @ before.sums.total_F.to(q_BHNCF)[..., None]).squeeze(-1)
    return (context_BHNCK / total_BHNC.clamp_min(LEAST)[..., None]).flatten(2, 3)


def _of_the_last(chunks: Segment, ended_B1N: Tensor | None) -> Sums:
    """Of each chunk, the sums of the document that it ends in: what a later one may see of it."""
    scale_BHNC = chunks.scale_BHL
    if ended_B1N is not None and chunks.ids_B1L is not None:
        scale_BHNC = scale_BHNC.masked_fill(chunks.ids_B1L != ended_B1N[..., None], -torch.inf)
    return folded(Features(chunks.k_BHLF, scale_BHNC), chunks.v_BHLK)


def _preceding(items: Sums, ended_N: Tensor | None, carry: Carry) -> Sums:
    """Before each of items [..., N], the sums of the document that was going on. `carry` [...] came before all of them."""
    count = items.peak.shape[-1]
    if count > 2 * GROUP:
        groups = items.filled(-count % GROUP).grouped(GROUP)
        ended_NG = None if ended_N is None else _filled(ended_N, -count % GROUP).unflatten(-1, (-1, GROUP))
        last_N = None if ended_NG is None else ended_NG[..., -1]
        came = _preceding(_all(groups, ended_NG), last_N, carry)
        entered = Carry(came, None if last_N is None else _previous(last_N, carry.id))
        return _preceding(groups, ended_NG, entered).apart().first(count)
    everything = carry.sums.then(items)
    earlier = torch.ones(count, count + 1, dtype=torch.bool, device=items.peak.device).tril()
    if ended_N is not None:
        earlier = earlier & (_previous(ended_N, carry.id)[..., None] == _after(carry.id, ended_N)[..., None, :])
    return weighted(everything, everything.peak[..., None, :].masked_fill(~earlier, -torch.inf))


def _all(items: Sums, ended_N: Tensor | None) -> Sums:
    """Of items [..., N] together, what is of the document that the last of them ends in."""
    peak_N = items.peak if ended_N is None else items.peak.masked_fill(ended_N != ended_N[..., -1:], -torch.inf)
    together = weighted(items, peak_N[..., None, :])
    return Sums(together.values_FK.squeeze(-3), together.total_F.squeeze(-2), together.peak.squeeze(-1))


def _after(first: Tensor | None, rest_N: Tensor) -> Tensor:
    assert first is not None
    return torch.cat([first[..., None], rest_N], -1)


def _previous(ended_N: Tensor, first: Tensor | None) -> Tensor:
    return _after(first, ended_N[..., :-1])


def _filled(ended_N: Tensor, more: int) -> Tensor:
    return torch.cat([ended_N, ended_N[..., -1:].expand(*ended_N.shape[:-1], more)], -1)
