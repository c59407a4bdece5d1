"""Linear attention: running sums of keys and values, and the causal scan over them.

The sum of phi(q) . phi(k) v over keys is phi(q) times the sum of phi(k) v^T, which does not depend on the query: a matrix and a
vector for any number of keys. The features of a key are exp(scale) phi(k) and may overflow, so sums are kept relative to
exp(peak), the largest of their scales, and joined as log-sum-exps are (Milakov & Gimelshein 2018).

Causal attention would need these sums for every position, L matrices of F x K. So a sequence is cut into chunks: inside one,
queries meet keys in a small triangle; everything before it is one matrix a chunk, summed in groups of chunks first. A query's sum
is relative to the largest scale that this query sees, so later keys never change a bit of earlier results. Where several
documents share a row, sums start again with each of them.

Dims: B batch, H heads, L length, M memory length, N items or chunks, C positions of a chunk, F features, K head width.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.model.mixers.feature_maps import FeatureMap, Features

NOTHING = -1e30  # the peak of no keys at all: a number, since infinity less infinity is none
LEAST = 1e-30  # divisor where no key is visible


class Sums(NamedTuple):
    values_FK: Tensor  # [..., F, K], of phi(k) v
    total_F: Tensor  # [..., F], of phi(k)
    peak: Tensor  # [...]

    def then(self, items: Sums) -> Sums:
        """One more item [...], before items [..., N]."""
        return Sums(*(torch.cat([one.unsqueeze(dim), many], dim) for one, many, dim in zip(self, items, (-3, -2, -1))))

    def grouped(self, size: int) -> Sums:
        """Items [..., N] as [..., groups, size]."""
        return Sums(*(part.unflatten(dim, (-1, size)) for part, dim in zip(self, (-3, -2, -1))))

    def apart(self) -> Sums:
        """And back."""
        return Sums(self.values_FK.flatten(-4, -3), self.total_F.flatten(-3, -2), self.peak.flatten(-2))

    def first(self, count: int) -> Sums:
        """Items that many."""
        return Sums(self.values_FK[..., :count, :, :], self.total_F[..., :count, :], self.peak[..., :count])

    def filled(self, more: int) -> Sums:
        """Append this many empty items."""
        values_FK, total_F = F.pad(self.values_FK, (0, 0, 0, 0, 0, more)), F.pad(self.total_F, (0, 0, 0, more))
        return Sums(values_FK, total_F, F.pad(self.peak, (0, more), value=NOTHING))


class RecurrentForm(Protocol):
    """A mixer that needs only running sums, so that decoding keeps no keys."""

    @property
    def features(self) -> FeatureMap: ...

    def update(self, k_BHMK: Tensor, v_BHMK: Tensor, lengths_B: Tensor | None = None) -> Sums:
        """Return the sums of these keys and values; of sequence b, of its first lengths_B[b]."""
        ...

    def query(self, q_BHLK: Tensor, sums: Sums) -> Tensor:
        """context_BHLK of queries that all see the same sums, or, where those are [B, H, L, ...], each its own."""
        ...


def empty(like: Sums) -> Sums:
    """Return empty sums in the shape of one item of `like`."""
    one = like.values_FK[..., 0, :, :], like.total_F[..., 0, :], like.peak[..., 0]
    return Sums(torch.zeros_like(one[0]), torch.zeros_like(one[1]), torch.full_like(one[2], NOTHING))


def folded(keys: Features, v_BHMK: Tensor) -> Sums:
    """Return the sums of all keys; hidden keys have a scale of minus infinity. Sums are in the type of the scales."""
    peak_BH = keys.scale_BHL.amax(-1).clamp_min(NOTHING)
    k_BHMF = (keys.phi_BHLF * (keys.scale_BHL - peak_BH[..., None]).exp()[..., None]).to(v_BHMK)
    return Sums((k_BHMF.mT @ v_BHMK).to(peak_BH), k_BHMF.sum(-2, dtype=peak_BH.dtype), peak_BH)


def weighted(items: Sums, peaks_RN: Tensor) -> Sums:
    """Sums [..., R] of items [..., N]: in each row of those that have a peak there, and not minus infinity."""
    peak_R = peaks_RN.amax(-1).clamp_min(NOTHING)
    weights_RN = (peaks_RN - peak_R[..., None]).exp()
    values_RFK = (weights_RN @ items.values_FK.flatten(-2)).unflatten(-1, items.values_FK.shape[-2:])
    return Sums(values_RFK, weights_RN @ items.total_F, peak_R)


def joined(one: Sums, other: Sums) -> Sums:
    peak = torch.maximum(one.peak, other.peak)
    mine, theirs = (one.peak - peak).exp(), (other.peak - peak).exp()
    values_FK = one.values_FK * mine[..., None, None] + other.values_FK * theirs[..., None, None]
    return Sums(values_FK, one.total_F * mine[..., None] + other.total_F * theirs[..., None], peak)


def asked(phi_LF: Tensor, sums: Sums) -> Tensor:
    """context [..., L, K] of queries that all see these sums."""
    context_LK = (phi_LF @ sums.values_FK.to(phi_LF)).to(sums.peak)
    total_L1 = (phi_LF @ sums.total_F.to(phi_LF)[..., None]).to(sums.peak)
    return context_LK / total_L1.clamp_min(LEAST)


CHUNK = 128  # places: larger chunks compute more masked pairs, smaller ones keep more matrices
GROUP = 16  # chunks whose matrices are summed by one product


class Segment(NamedTuple):
    """Some of a sequence; cut into chunks, L is N, C."""

    q_BHLF: Tensor
    k_BHLF: Tensor
    scale_BHL: Tensor  # of keys; minus infinity for masked keys
    v_BHLK: Tensor
    ids_B1L: Tensor | None = None  # of documents, none of them negative


class Carry(NamedTuple):
    """Sums of everything before a chunk, and its last document."""

    sums: Sums
    id: Tensor | None  # of the document they are of


def causal_scan(part: Callable[[int, int], Segment], length: int, stride: int | None = None) -> Tensor:
    """context_BHLK: each place sees itself and all before it, of its own document; sums are in the type of the scales.

    `part` gives what lies between two places. With a stride, one segment is done after the other, in memory that a processor has
    at hand.
    """
    if not length:  # the prompt before a first token, say
        return part(0, 0).v_BHLK
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
    """Cut into chunks; padding behind the last position belongs to the last document and is never seen."""
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
    """Return for each chunk the sums of its last document, which later chunks may see."""
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
    """Join items [..., N], restricted to the last item's document."""
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
