"""Greedy search: always the most probable next token. Rows that have ended leave the batch."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.decode.hypothesis import Hypothesis, row_limits
from regard.decode.offers import Offers
from regard.model.state import State


@torch.no_grad()
def greedy(
    state: State,
    rows: int,
    *,
    sos: int,
    eos: int,
    maximum: Tensor | Sequence[int],
    minimum: int = 0,
    banned: Sequence[int] = (),
) -> list[Hypothesis]:
    """One hypothesis per row of `state`, the one a beam of one finds; nothing is ranked, so its score is its logprob.

    `maximum` limits each row's tokens, eos counted, and says by its device where to run; a row ends after `minimum`
    tokens or more; `banned` tokens never come out. Of equally probable tokens, the lower id is taken.
    """
    limit_B = row_limits(maximum, rows)
    offers = Offers(eos=eos, banned=banned, minimum=minimum, device=limit_B.device)
    row_B = torch.arange(rows, device=limit_B.device)
    tokens_BT = torch.full((rows, 1), sos, device=limit_B.device)
    logprobs_BT = limit_B.new_zeros(rows, 0, dtype=torch.float64)
    outputs: dict[int, Hypothesis] = {}
    while len(outputs) < rows:
        position = logprobs_BT.shape[1]
        logprob_B1, token_B1 = offers.best(state.step(tokens_BT[:, -1:])[:, 0], 1, position)
        tokens_BT = torch.cat([tokens_BT, token_B1], 1)
        logprobs_BT = torch.cat([logprobs_BT, logprob_B1], 1)
        done_B = (token_B1[:, 0] == eos) | logprob_B1[:, 0].isneginf() | (position + 1 >= limit_B)
        if not done_B.any():
            continue
        ended = zip(row_B[done_B].tolist(), tokens_BT[done_B].tolist(), logprobs_BT[done_B].tolist())
        outputs.update((row, _hypothesis(tokens[1:], logprobs, eos)) for row, tokens, logprobs in ended)
        stay = (~done_B).nonzero().flatten()
        if len(stay):
            state.select(sentences=stay)
            row_B, limit_B, tokens_BT, logprobs_BT = (part[stay] for part in (row_B, limit_B, tokens_BT, logprobs_BT))
    return [outputs[row] for row in range(rows)]


def _hypothesis(tokens: list[int], logprobs: list[float], eos: int) -> Hypothesis:
    if logprobs[-1] == -torch.inf:  # nothing could follow: the last token is no choice of the model
        tokens, logprobs = tokens[:-1], logprobs[:-1]
    finished = tokens[-1:] == [eos]
    return Hypothesis(tokens[:-1] if finished else tokens, sum(logprobs), sum(logprobs), finished, logprobs)
