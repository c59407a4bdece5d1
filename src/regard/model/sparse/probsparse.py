"""ProbSparse attention: the few queries whose scores stand out get attention, all others the mean of the values.

Zhou et al. 2021, "Informer", section 3.1. With c = `sampling_factor`, u = min(c ceil(ln(1 + L)), L) and as many sampled keys:

    M(q_i) = max_j s_ij - mean_j s_ij,  s_ij = q_i . k_j / sqrt(K)    equation 4; the maximum is over sampled keys alone
    context_i = softmax(s_i) V        for the u queries with the largest M
                mean of V             for the others: the mean of what they see, where attention is causal

So L u scores are computed to choose queries, and u M to answer them, in place of L M. Where u = L, it is softmax attention.

Differs from the paper in: the mean of all scores is exact, since it is q_i . mean(k); SHARED queries in a row share one sample of
keys, so that their scores are one product of matrices; and the others get a mean where attention is causal too, where the
authors' code has a sum. The sample is a function of a number that is drawn by count for each training step and saved with the
weights, so it is the same again after a restart, and in every evaluation. Which queries are chosen depends on all queries of a
sequence, so no model that writes token after token can use it.

Dims: B batch, H heads, L queries, M keys, K head width, N groups of R queries, U sampled keys, u chosen queries.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log1p
from typing import Annotated, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.config import Bounds, refuse_unused
from regard.core.rng import derive_seed
from regard.model.mixers.feature_maps import Drawn
from regard.model.mixers.softmax import Softmax
from regard.model.visibility import View
from regard.model.visibility.combine import must_be_plain

SHARED = 32  # queries in a row that share a sample of keys
BITS = 32
MASK = 2**BITS - 1


@dataclass(frozen=True, kw_only=True)
class ProbSparseSettings:
    """Recipe keys of model.mixer=probsparse."""

    sampling_factor: Annotated[int, Bounds(1)] = 5  # of probsparse: how many times ln(length) queries get attention

    def check_probsparse(self) -> None:
        refuse_unused(self, ProbSparseSettings, "mixer", "probsparse")


class Chosen(NamedTuple):
    """The queries that get attention."""

    index_BHu: Tensor
    real_BHu: Tensor  # False: a place that a shorter sequence of the batch does not need
    visible_BHu: Tensor  # how many keys each sees: always the first ones


class ProbSparse(Drawn):
    recurrent_form = None

    def __init__(self, factor: int, name: str) -> None:
        super().__init__(name, redraw_every=1)
        self.factor, self.softmax = factor, Softmax()
        self.register_buffer("sample_key", torch.zeros((), dtype=torch.long))
        self.sample_key: Tensor

    @torch.no_grad()
    def draw(self, seed: int, number: int) -> None:
        """Into the same memory, which a recorded step goes on reading."""
        self.seed, self.number = seed, number
        self.sample_key.fill_(derive_seed(seed, f"sampled keys/{self.name}", number) & MASK)

    def mix(self, q_BHLK: Tensor, k_BHMK: Tensor, v_BHMK: Tensor, view: View, dropout: float = 0.0) -> Tensor:
        sees, (length, memory) = must_be_plain(view.visibility, "ProbSparse attention"), (q_BHLK.shape[2], k_BHMK.shape[2])
        if sees.documents_BL is not None:
            raise ValueError("ProbSparse attention chooses queries of one sequence a row; several documents cannot share one")
        if sees.lengths_B is None and self.count(length) == length:
            whole = view.visibility.over(length, memory, batch=view.batch, device=q_BHLK.device)
            return self.softmax.mix(q_BHLK, k_BHMK, v_BHMK, whole, dropout)
        visible_BL = _visible(sees.causal, sees.lengths_B, length, memory, q_BHLK.device)
        chosen = self._choose(q_BHLK, k_BHMK, visible_BL, sees.causal, sees.lengths_B)
        mean_BHLK = _mean(v_BHMK, visible_BL, sees.causal, sees.lengths_B).expand(*v_BHMK.shape[:2], length, -1)
        at = chosen.index_BHu[..., None]
        mask = None
        if sees.causal or sees.lengths_B is not None:
            mask = torch.arange(memory, device=q_BHLK.device) < chosen.visible_BHu[..., None].clamp(min=1)
        few = View(view.visibility, view.batch, at.shape[2], memory, 0, q_BHLK.device, mask=mask)
        asking_BHuK = q_BHLK.gather(2, at.expand(-1, -1, -1, q_BHLK.shape[3]))
        context_BHuK = self.softmax.mix(asking_BHuK, k_BHMK, v_BHMK, few, dropout)
        at = at.expand_as(context_BHuK)
        if sees.lengths_B is not None:
            context_BHuK = torch.where(chosen.real_BHu[..., None], context_BHuK, mean_BHLK.gather(2, at))
        return mean_BHLK.scatter(2, at, context_BHuK.to(mean_BHLK.dtype))

    def weights(self, q_BHLK: Tensor, k_BHMK: Tensor, sees_BHLM: Tensor) -> Tensor:
        """Return the weights of all queries: of a query that was not chosen, the same for every key that it sees."""
        visible_BL = sees_BHLM.sum(-1)[:, 0].expand(-1, q_BHLK.shape[2])
        lengths_B = visible_BL.amax(-1).expand(len(q_BHLK))
        causal = bool((visible_BL[:, :1] != visible_BL).any())
        return self.softmax.weights(self._asking(q_BHLK, k_BHMK, visible_BL, causal, lengths_B), k_BHMK, sees_BHLM)

    def shown(self, q_BHLK: Tensor, k_BHMK: Tensor, view: View) -> tuple[Softmax, Tensor]:
        """Return softmax attention and the queries with which it has these weights, for a probe, which may ask for some rows."""
        sees, (length, memory) = must_be_plain(view.visibility, "ProbSparse attention"), (q_BHLK.shape[2], k_BHMK.shape[2])
        visible_BL = _visible(sees.causal, sees.lengths_B, length, memory, q_BHLK.device)
        return self.softmax, self._asking(q_BHLK, k_BHMK, visible_BL, sees.causal, sees.lengths_B)

    def flops(self, queries: int, keys: int, head_width: int, share: float) -> int:
        """Return the operations of one head: scores of sampled keys, means, and the attention of the chosen queries."""
        chosen = self.count(queries)
        if chosen == queries:
            return 4 * queries * keys * head_width
        return 2 * queries * (self.count(keys) + 1) * head_width + 2 * keys * head_width + 4 * chosen * keys * head_width

    def _asking(self, q_BHLK: Tensor, k_BHMK: Tensor, visible_BL: Tensor, causal: bool, lengths_B: Tensor | None) -> Tensor:
        """Return queries of which those that are not chosen are 0, so that their weights are all the same."""
        chosen = self._choose(q_BHLK, k_BHMK, visible_BL, causal, lengths_B)
        asks_BHL = torch.zeros(q_BHLK.shape[:3], dtype=torch.bool, device=q_BHLK.device)
        return q_BHLK * asks_BHL.scatter(2, chosen.index_BHu, chosen.real_BHu)[..., None]

    def count(self, length: int) -> int:
        """Return how many queries of a sequence get attention, and how many keys are sampled."""
        return min(self.factor * ceil(log1p(length)), length)

    def _counts(self, lengths_B: Tensor) -> Tensor:
        """Return the same of sequences of these lengths."""
        return (self.factor * lengths_B.double().log1p().ceil().long()).minimum(lengths_B)

    @torch.no_grad()
    def _choose(self, q_BHLK: Tensor, k_BHMK: Tensor, visible_BL: Tensor, causal: bool, lengths_B: Tensor | None) -> Chosen:
        with torch.autocast(q_BHLK.device.type, enabled=False):  # what is rounded may change places
            measure_BHL = self._measure(q_BHLK.float(), k_BHMK.float(), visible_BL, causal, lengths_B)
        length = q_BHLK.shape[2]
        if lengths_B is not None:
            padding_BL = torch.arange(length, device=q_BHLK.device) >= lengths_B[:, None]
            measure_BHL = measure_BHL.masked_fill(padding_BL[:, None], -torch.inf)
        index_BHu = measure_BHL.topk(self.count(length), -1).indices
        real_BHu = torch.ones_like(index_BHu, dtype=torch.bool)
        if lengths_B is not None:
            real_BHu &= torch.arange(index_BHu.shape[-1], device=q_BHLK.device) < self._counts(lengths_B)[:, None, None]
        visible_BHL = visible_BL[:, None].expand(measure_BHL.shape)
        return Chosen(index_BHu, real_BHu, visible_BHL.gather(2, index_BHu))

    def _measure(self, q_BHLK: Tensor, k_BHMK: Tensor, visible_BL: Tensor, causal: bool, lengths_B: Tensor | None) -> Tensor:
        """Return max_j - mean_j of the scores of each query, times sqrt(K); the maximum over sampled keys that it sees."""
        length, memory, groups = q_BHLK.shape[2], k_BHMK.shape[2], -(-q_BHLK.shape[2] // SHARED)
        last_N = torch.arange(1, groups + 1, device=q_BHLK.device) * SHARED - 1
        reach_BN = visible_BL[:, last_N.clamp(max=length - 1)]  # what the last query of a group sees
        sampled_BNU = sampled_keys(self.sample_key, reach_BN, self.count(memory))
        counts_B11 = None if lengths_B is None else self._counts(lengths_B)[:, None, None]
        at = sampled_BNU.flatten(1)[:, None, :, None].expand(len(k_BHMK), k_BHMK.shape[1], -1, k_BHMK.shape[3])
        keys_BHNUK = k_BHMK.gather(2, at).unflatten(2, sampled_BNU.shape[1:])
        q_BHNRK = F.pad(q_BHLK, (0, 0, 0, groups * SHARED - length)).unflatten(2, (groups, SHARED))
        scores_BHNRU = q_BHNRK @ keys_BHNUK.mT
        if causal:
            seen_BNR = F.pad(visible_BL, (0, groups * SHARED - length)).unflatten(1, (groups, SHARED))
            unseen_BNRU = sampled_BNU[:, :, None] >= seen_BNR[..., None]
            scores_BHNRU = scores_BHNRU.masked_fill(unseen_BNRU[:, None], -torch.inf)
        if counts_B11 is not None:
            unused_B1U = torch.arange(sampled_BNU.shape[2], device=q_BHLK.device) >= counts_B11
            scores_BHNRU = scores_BHNRU.masked_fill(unused_B1U[:, None, None], -torch.inf)
        most_BHL = scores_BHNRU.amax(-1).flatten(2)[..., :length]
        return most_BHL - (q_BHLK * _mean(k_BHMK, visible_BL, causal, lengths_B)).sum(-1)


def sampled_keys(key: Tensor, reach_BN: Tensor, count: int) -> Tensor:
    """Return index_BNU of `count` keys for each group of queries, drawn with replacement from its first reach_BN keys.

    Each is a function of the key, the group and its place in the sample alone, so neither the batch nor the device changes it.
    """
    device = reach_BN.device
    groups_N1 = torch.arange(1, reach_BN.shape[1] + 1, device=device)[:, None]
    draws_NU = _scrambled(_scrambled(key ^ _scrambled(groups_N1)) ^ torch.arange(count, device=device))
    return (draws_NU * reach_BN[..., None]) >> BITS


def _scrambled(x: Tensor) -> Tensor:
    """Return 32-bit numbers that look drawn; products stay below 2^63, so every device finds the same ones."""
    for _ in range(2):
        x = ((x ^ (x >> 16)) * 0x45D9F3B) & MASK
    return x ^ (x >> 16)


def _visible(causal: bool, lengths_B: Tensor | None, length: int, memory: int, device: torch.device) -> Tensor:
    """Return how many keys each query sees, which are the first ones; B is 1 where all sequences are alike."""
    most_B1 = torch.full((1, 1), memory, device=device) if lengths_B is None else lengths_B[:, None]
    return (torch.arange(1, length + 1, device=device) if causal else most_B1.new_full((length,), memory)).minimum(most_B1)


def _mean(x_BHMK: Tensor, visible_BL: Tensor, causal: bool, lengths_B: Tensor | None) -> Tensor:
    """Return the mean of what each query sees, added up in float32; alike for all queries where attention is not causal."""
    if lengths_B is not None:
        hidden_BM = torch.arange(x_BHMK.shape[2], device=x_BHMK.device) >= lengths_B[:, None]
        x_BHMK = x_BHMK.masked_fill(hidden_BM[:, None, :, None], 0.0)
    if causal:
        return (x_BHMK.float().cumsum(2) / visible_BL.clamp(min=1)[:, None, :, None]).to(x_BHMK.dtype)
    return (x_BHMK.float().sum(2, keepdim=True) / visible_BL[:, None, :1, None].clamp(min=1)).to(x_BHMK.dtype)
