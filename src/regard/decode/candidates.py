"""The tokens a row would go on with: the few most probable of its vocabulary, best first, the same on every device.

Log-probabilities are the model's own: banning a token takes it out of the search but does not raise the others. They
are computed in float32 whatever the logits are; sums of them are kept in float64, so that they keep their terms' order.

A CPU looks first whether a rare case has come up; where looking would make the host wait for the device (`fixed`), every case is
computed every time. Dims: B rows (lanes of all sentences), V vocabulary, K offered.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from regard.decode.constraints import Constraints
from regard.decode.rules import Rules


class Allowed(NamedTuple):
    """Each token's log-probability, minus infinity where it may not come. Empty and broken rows are NaN."""

    logprob_BV: Tensor
    empty_B: Tensor
    broken_B: Tensor

    def of(self, token_BK: Tensor) -> Tensor:
        """logprob_BK of these. An empty row offers nothing."""
        return self.logprob_BV.gather(1, token_BK).masked_fill_(self.empty_B[:, None], -torch.inf)


class TopCandidates(NamedTuple):
    logprob_BK: Tensor
    token_BK: Tensor
    broken_B: Tensor  # where the model's scores are no numbers


class Candidates:
    """Turns logits into offers; knows what may not come out."""

    def __init__(self, rules: Rules, device: torch.device, *, fixed: bool) -> None:
        self.bars, self.fixed = Constraints(rules, device), fixed

    def allowed(
        self, logits_BV: Tensor, step_1: Tensor, tail_BN: Tensor | None = None, forced_B1: Tensor | None = None
    ) -> Allowed:
        """For the token that comes after `step_1` others, the latest of which are `tail_BN`; where one is forced, only that."""
        allowed = Allowed(*log_probabilities(logits_BV, fixed=self.fixed))
        self.bars.lower(allowed.logprob_BV, step_1, tail_BN, forced_B1)
        return allowed

    def best(
        self, logits_BV: Tensor, count: int, step_1: Tensor, tail_BN: Tensor | None = None, forced_B1: Tensor | None = None
    ) -> TopCandidates:
        """K = min(count, V). Of equals, the lower id comes first."""
        allowed = self.allowed(logits_BV, step_1, tail_BN, forced_B1)
        token_BK = self._first_largest(allowed.logprob_BV, count)
        return TopCandidates(allowed.of(token_BK), token_BK, allowed.broken_B)

    def _first_largest(self, logprob_BV: Tensor, count: int) -> Tensor:
        if count == 1:
            return logprob_BV.argmax(1, keepdim=True)  # which promises the first
        return first_by_key(logprob_BV, count) if self.fixed else first_by_sorting(logprob_BV, count)


def log_probabilities(logits_BV: Tensor, *, fixed: bool) -> tuple[Tensor, Tensor, Tensor]:
    """logprob_BV, and which rows are empty (minus infinity throughout: nothing can follow) or broken; those are NaN."""
    logprob_BV = logits_BV.log_softmax(-1, dtype=torch.float32)
    empty_B = lost_B = logprob_BV[:, 0].isnan()  # one bad logit spoils its whole row, so the first column tells
    if fixed or lost_B.any():
        empty_B = logits_BV.amax(-1).isneginf()
    return logprob_BV, empty_B, lost_B & ~empty_B


def first_by_key(logprob_BV: Tensor, count: int) -> Tensor:
    """Indices of the largest, lower first, of numbers that are not positive.

    topk promises nothing where values tie. So it is given keys that never do: the bits of a number's magnitude, which as an
    integer are ordered as the magnitude is, and below them the index.
    """
    magnitude_BV = logprob_BV.abs().view(torch.int32)
    index_V = torch.arange(logprob_BV.shape[1], device=logprob_BV.device)
    key_BV = torch.add(index_V, magnitude_BV, alpha=1 << 32)
    return key_BV.topk(min(count, logprob_BV.shape[1]), largest=False).values & 0xFFFFFFFF


def first_by_sorting(values_BV: Tensor, count: int) -> Tensor:
    """The same, of any numbers: topk, and a second look at those rows where the last let in ties with the first left out."""
    size = values_BV.shape[1]
    count = min(count, size)
    top_BK, index_BK = values_BV.topk(min(count + 1, size))
    if count < size:
        last_B1 = top_BK[:, count - 1 : count]
        tied_B = top_BK[:, count] == last_B1[:, 0]
        index_BK = index_BK[:, :count]
        if tied_B.any():
            index_BK[tied_B] = _first_of_ties(values_BV[tied_B], last_B1[tied_B], count)
    index_BK = index_BK.sort(dim=1).values
    order_BK = values_BV.gather(1, index_BK).argsort(dim=1, descending=True, stable=True)
    return index_BK.gather(1, order_BK)


def _first_of_ties(values_BV: Tensor, last_B1: Tensor, count: int) -> Tensor:
    """All that exceed the last value let in, then the lowest of the indices that equal it."""
    low_first_V = -torch.arange(values_BV.shape[1], device=values_BV.device, dtype=torch.float32)
    rank_BV = torch.where(values_BV == last_B1, low_first_V, -torch.inf).masked_fill(values_BV > last_B1, 1.0)
    return rank_BV.topk(count).indices
