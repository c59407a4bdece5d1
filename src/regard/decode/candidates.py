"""Candidates for the next token: the few most probable tokens of each row, best first, the same on every device.

Log-probabilities are the model's own: a banned token leaves the search but does not raise the others. They are computed in
float32 whatever the dtype of the logits; sums of them are kept in float64, so that rounding does not change their order.

On a CPU a rare case is computed only where it occurs. Where asking would make the host wait for the device (`fixed`), every
case is computed every time. Dims: B rows (the lanes of all sentences), V vocabulary, K candidates of a row.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.decode.constraints import ConstraintMask, Constraints


class AllowedTokens(NamedTuple):
    """Log-probability of each token, minus infinity where constraints exclude it. Empty and broken rows are NaN."""

    logprob_BV: Tensor
    empty_B: Tensor  # no token can follow
    broken_B: Tensor  # the model's scores are NaN or infinite

    def logprobs_of(self, token_BK: Tensor) -> Tensor:
        """Return logprob_BK of these tokens, minus infinity in an empty row."""
        return self.logprob_BV.gather(1, token_BK).masked_fill_(self.empty_B[:, None], -torch.inf)


class TopCandidates(NamedTuple):
    """The K best tokens of each row."""

    logprob_BK: Tensor
    token_BK: Tensor
    broken_B: Tensor


class Candidates:
    """Turns logits into log-probabilities of the tokens that constraints allow, and picks the best of them."""

    def __init__(self, constraints: Constraints, device: torch.device, *, fixed: bool) -> None:
        self.mask, self.fixed = ConstraintMask(constraints, device), fixed

    def allowed(
        self,
        logits_BV: Tensor,
        step_1: Tensor,
        tail_BN: Tensor | None = None,
        forced_B1: Tensor | None = None,
        text_BM: Tensor | None = None,
        first: int = 0,
    ) -> AllowedTokens:
        """Return log-probabilities under the constraints; the arguments are those of `ConstraintMask.apply`."""
        allowed = AllowedTokens(*log_probabilities(logits_BV, fixed=self.fixed))
        self.mask.apply(allowed.logprob_BV, step_1, tail_BN, forced_B1, text_BM, first)
        return allowed

    def best(self, logits_BV: Tensor, count: int, step_1: Tensor, tail_BN: Tensor | None = None, *more: Any) -> TopCandidates:
        """Return the K = min(count, V) most probable tokens; of equally probable ones, the lower id comes first."""
        allowed = self.allowed(logits_BV, step_1, tail_BN, *more)
        if count == 1:
            token_BK = allowed.logprob_BV.argmax(1, keepdim=True)  # which returns the first of equals
        else:
            token_BK = (topk_by_key if self.fixed else topk_by_sorting)(allowed.logprob_BV, count)
        return TopCandidates(allowed.logprobs_of(token_BK), token_BK, allowed.broken_B)


class RankedCandidates(NamedTuple):
    """One-token continuations of a sentence's lanes, most probable first."""

    lane_SC: Tensor  # the lane continued
    token_SC: Tensor
    logprob_SC: Tensor
    total_SC: Tensor


def rank(total_SW: Tensor, logprob_BK: Tensor, token_BK: Tensor, count: int) -> RankedCandidates:
    """Return the `count` best continuations of each sentence, of the K of each lane.

    Of equal totals, the better lane comes first.
    """
    sentences, lanes = total_SW.shape
    logprob_SWK = logprob_BK.view(sentences, lanes, -1)
    total_SN = (total_SW[..., None] + logprob_SWK).flatten(1)
    total_SN, index_SN = total_SN.sort(dim=1, descending=True, stable=True)
    index_SC = index_SN[:, :count]
    return RankedCandidates(
        lane_SC=index_SC // logprob_SWK.shape[2],
        token_SC=token_BK.view(sentences, -1).gather(1, index_SC),
        logprob_SC=logprob_SWK.flatten(1).gather(1, index_SC),
        total_SC=total_SN[:, :count],
    )


def log_probabilities(logits_BV: Tensor, *, fixed: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return logprob_BV, which rows are empty (minus infinity throughout), and which are broken; both kinds of row are NaN."""
    logprob_BV = logits_BV.log_softmax(-1, dtype=torch.float32)
    empty_B = lost_B = logprob_BV[:, 0].isnan()  # one bad logit makes its whole row NaN, so the first column is enough
    if fixed or lost_B.any():
        empty_B = logits_BV.amax(-1).isneginf()
    return logprob_BV, empty_B, lost_B & ~empty_B


def topk_by_key(logprob_BV: Tensor, count: int) -> Tensor:
    """Return the indices of the largest of numbers that are not positive, the lower index first where they are equal.

    torch's topk promises no order among equals. So it gets integer keys that are all different: the bits of a number's magnitude,
    which are ordered as the magnitudes are, and below them the index.
    """
    magnitude_BV = logprob_BV.abs().view(torch.int32)
    index_V = torch.arange(logprob_BV.shape[1], device=logprob_BV.device)
    key_BV = torch.add(index_V, magnitude_BV, alpha=1 << 32)
    return key_BV.topk(min(count, logprob_BV.shape[1]), largest=False).values & 0xFFFFFFFF


def topk_by_sorting(values_BV: Tensor, count: int) -> Tensor:
    """Return what `topk_by_key` does, for any numbers: topk, then a correction of rows whose last one ties with one left out."""
    size = values_BV.shape[1]
    count = min(count, size)
    top_BK, index_BK = values_BV.topk(min(count + 1, size))
    if count < size:
        last_B1 = top_BK[:, count - 1 : count]
        tied_B = top_BK[:, count] == last_B1[:, 0]
        index_BK = index_BK[:, :count]
        if tied_B.any():
            index_BK[tied_B] = _lowest_of_ties(values_BV[tied_B], last_B1[tied_B], count)
    index_BK = index_BK.sort(dim=1).values
    order_BK = values_BV.gather(1, index_BK).argsort(dim=1, descending=True, stable=True)
    return index_BK.gather(1, order_BK)


def _lowest_of_ties(values_BV: Tensor, last_B1: Tensor, count: int) -> Tensor:
    """Return the indices of all values above the last one let in, and the lowest indices that equal it."""
    low_first_V = -torch.arange(values_BV.shape[1], device=values_BV.device, dtype=torch.float32)
    rank_BV = torch.where(values_BV == last_B1, low_first_V, -torch.inf).masked_fill(values_BV > last_B1, 1.0)
    return rank_BV.topk(count).indices
