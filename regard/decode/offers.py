"""The tokens a row would go on with: the few most probable of its vocabulary, best first, the same on every device.

Log-probabilities are the model's own: banning a token takes it out of the search but does not raise the others. They
are computed in float32 whatever the logits are, and returned in float64, so that sums of them keep their terms' order.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.errors import UserError


class Offers:
    """Turns logits into offers; knows which tokens may not come out, and from which length on a row may end."""

    def __init__(self, *, eos: int, banned: Sequence[int], minimum: int, device: torch.device) -> None:
        self.minimum = minimum
        self.banned = torch.tensor(banned, dtype=torch.long, device=device)
        self.banned_early = torch.tensor([*banned, eos], dtype=torch.long, device=device)

    def best(self, logits_BV: Tensor, count: int, position: int) -> tuple[Tensor, Tensor]:
        """logprob_BK and token_BK, K = min(count, V), for the token at `position` (from 0) of the output."""
        logprob_BV = log_probabilities(logits_BV)
        logprob_BV.index_fill_(1, self.banned_early if position < self.minimum else self.banned, -torch.inf)
        logprob_BK, token_BK = first_largest(logprob_BV, count)
        return logprob_BK.double(), token_BK


def log_probabilities(logits_BV: Tensor) -> Tensor:
    """A row that is minus infinity throughout stays so: nothing can follow. Other non-finite rows are an error."""
    logprob_BV = logits_BV.log_softmax(-1, dtype=torch.float32)
    lost_B = logprob_BV[:, 0].isnan()  # one bad logit spoils its whole row, so the first column tells
    if lost_B.any():
        if not logits_BV[lost_B].isneginf().all():
            raise UserError(
                "The model's scores for the next token are not numbers (NaN or infinite): its weights or its input are "
                "broken. Decode from an earlier checkpoint, or in float32."
            )
        logprob_BV[lost_B] = -torch.inf
    return logprob_BV


def first_largest(values_BV: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """`topk`, the lower index winning a tie. topk itself promises nothing there, and bfloat16 logits tie often."""
    size = values_BV.shape[1]
    count = min(count, size)
    top_BK, index_BK = values_BV.topk(min(count + 1, size))
    if count < size:
        last_B1 = top_BK[:, count - 1 : count]
        tied_B = top_BK[:, count] == last_B1[:, 0]  # the first left out equals the last let in
        index_BK = index_BK[:, :count]
        if tied_B.any():
            index_BK[tied_B] = _first_of_ties(values_BV[tied_B], last_B1[tied_B], count)
    index_BK = index_BK.sort(dim=1).values
    top_BK, order_BK = values_BV.gather(1, index_BK).sort(dim=1, descending=True, stable=True)
    return top_BK, index_BK.gather(1, order_BK)


def _first_of_ties(values_BV: Tensor, last_B1: Tensor, count: int) -> Tensor:
    """All that exceed the last value let in, then the lowest of the indices that equal it."""
    low_first_V = -torch.arange(values_BV.shape[1], device=values_BV.device, dtype=torch.float32)
    rank_BV = torch.where(values_BV == last_B1, low_first_V, -torch.inf).masked_fill(values_BV > last_B1, 1.0)
    return rank_BV.topk(count).indices
