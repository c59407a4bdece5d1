"""What attention by features keeps of any number of keys: a matrix and a vector, whatever their number.

For a query, the sum of phi(q) . phi(k) v over keys is phi(q) times the sum of phi(k) v^T, which no query is needed for. The
features of a key are exp(scale) phi(k) and may be too large or too small for any number, so sums are kept relative to exp(peak),
the largest of their scales; they are joined as logarithms of sums are (Milakov & Gimelshein 2018).

Dims: B batch, H heads, L query length, M memory length, N items, F features, K head width; "..." any number of dimensions.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.model.mixers.features import FeatureMap, Features

NOTHING = -1e30  # the peak of no keys at all: a number, since infinity less infinity is none
LEAST = 1e-30  # what is divided by where nobody was seen


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
        """So many items behind, that hold nothing."""
        values_FK, total_F = F.pad(self.values_FK, (0, 0, 0, 0, 0, more)), F.pad(self.total_F, (0, 0, 0, more))
        return Sums(values_FK, total_F, F.pad(self.peak, (0, more), value=NOTHING))


class Folds(Protocol):
    """A mixer of which sums are all that is ever asked, so that decoding keeps them and no keys."""

    @property
    def features(self) -> FeatureMap: ...

    def fold(self, k_BHMK: Tensor, v_BHMK: Tensor, lengths_B: Tensor | None = None) -> Sums:
        """All that can be seen of these keys, of sequence b of its first lengths_B[b]."""
        ...

    def recall(self, q_BHLK: Tensor, sums: Sums) -> Tensor:
        """context_BHLK of queries that all see the same sums, or, where those are [B, H, L, ...], each its own."""
        ...


def empty(like: Sums) -> Sums:
    """Nothing at all, for one of the items of `like`."""
    one = like.values_FK[..., 0, :, :], like.total_F[..., 0, :], like.peak[..., 0]
    return Sums(torch.zeros_like(one[0]), torch.zeros_like(one[1]), torch.full_like(one[2], NOTHING))


def folded(keys: Features, v_BHMK: Tensor) -> Sums:
    """Of all keys; those that nobody may see have a scale of minus infinity. Sums are in the type of the scales."""
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
