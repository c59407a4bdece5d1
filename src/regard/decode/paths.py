"""The paths of a beam search as a tree that only grows: nothing of a hypothesis is copied while it lives.

Each step ranks C candidates of a sentence, and each is a node: its token, how probable that was, and which candidate of the step
before it continues. Lanes and finished hypotheses are just nodes; their texts are read off when a sentence leaves.

Dims: S sentences, W lanes, K offered to each, C candidates a step, T steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

Path = tuple[list[int], list[float]]  # tokens and their log-probabilities


class Candidates(NamedTuple):
    """One-token continuations of a sentence's lanes, most probable first."""

    lane_SC: Tensor  # the lane continued
    token_SC: Tensor
    logprob_SC: Tensor
    total_SC: Tensor


def rank(total_SW: Tensor, logprob_BK: Tensor, token_BK: Tensor, count: int) -> Candidates:
    """The `count` best of each sentence, of the K offered to each lane. Ties: better lane first."""
    sentences, lanes = total_SW.shape
    logprob_SWK = logprob_BK.view(sentences, lanes, -1)
    total_SN = (total_SW[..., None] + logprob_SWK).flatten(1)
    total_SN, index_SN = total_SN.sort(dim=1, descending=True, stable=True)
    index_SC = index_SN[:, :count]
    return Candidates(
        lane_SC=index_SC // logprob_SWK.shape[2],
        token_SC=token_BK.view(sentences, -1).gather(1, index_SC),
        logprob_SC=logprob_SWK.flatten(1).gather(1, index_SC),
        total_SC=total_SN[:, :count],
    )


class Tree(NamedTuple):
    tokens_SCT: Tensor
    logprobs_SCT: Tensor
    parents_SCT: Tensor

    @classmethod
    def room(cls, sentences: int, candidates: int, steps: int, device: torch.device) -> Tree:
        tokens_SCT = torch.zeros(sentences, candidates, steps, dtype=torch.long, device=device)
        return cls(tokens_SCT, tokens_SCT.float(), tokens_SCT.clone())

    def grow(self, step_1: Tensor, candidates: Candidates, node_SW: Tensor) -> None:
        """Write this step's nodes; until now lane w was node_SW[s, w] of the step before."""
        parent_SC = node_SW.gather(1, candidates.lane_SC)
        for part_SCT, new_SC in zip(self, (candidates.token_SC, candidates.logprob_SC, parent_SC)):
            part_SCT.index_copy_(2, step_1, new_SC[..., None])

    def read(self, rows_R: Tensor, steps: int) -> list[Twigs]:
        return [Twigs(*parts) for parts in zip(*(part_SCT[rows_R, :, :steps].tolist() for part_SCT in self))]


class Twigs(NamedTuple):
    """One sentence's part of the tree, on the host; indexed by candidate, then step."""

    tokens: Sequence[Sequence[int]]
    logprobs: Sequence[Sequence[float]]
    parents: Sequence[Sequence[int]]

    def path(self, node: int, step: int) -> Path:
        """From the first step to this node of this one."""
        backwards = []
        for t in range(step, -1, -1):
            backwards.append((self.tokens[node][t], self.logprobs[node][t]))
            node = self.parents[node][t]
        tokens, logprobs = zip(*reversed(backwards)) if backwards else ((), ())
        return list(tokens), list(logprobs)
