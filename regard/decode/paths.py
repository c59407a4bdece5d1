"""The hypotheses of a beam search as tensors: S sentences, W hypotheses of each, T tokens; a dead one totals -inf."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.decode.hypothesis import Hypothesis, length_divisor


class Candidates(NamedTuple):
    """C one-token continuations of each sentence's live paths, most probable first; `parent` is the path continued."""

    parent_SC: Tensor
    token_SC: Tensor
    logprob_SC: Tensor
    total_SC: Tensor


class Paths(NamedTuple):
    """Padded at the right where paths of several lengths lie side by side."""

    tokens_SWT: Tensor
    logprobs_SWT: Tensor
    total_SW: Tensor
    length_SW: Tensor

    @classmethod
    def empty(cls, sentences: int, width: int, total: float, device: torch.device) -> Paths:
        tokens_SWT = torch.zeros(sentences, width, 0, dtype=torch.long, device=device)
        logprobs_SWT = tokens_SWT.double()
        return cls(
            tokens_SWT,
            logprobs_SWT,
            total_SW=logprobs_SWT.new_full((sentences, width), total),
            length_SW=tokens_SWT.new_zeros(sentences, width),
        )

    def candidates(self, logprob_BK: Tensor, token_BK: Tensor, count: int) -> Candidates:
        """The `count` best continuations of each sentence, of the K offered to each path. Ties: better parent first."""
        sentences, offered = len(self.total_SW), logprob_BK.shape[1]
        logprob_SN = logprob_BK.view(sentences, -1)
        total_SN = logprob_SN + self.total_SW.repeat_interleave(offered, dim=1)
        total_SN, index_SN = total_SN.sort(dim=1, descending=True, stable=True)
        index_SC = index_SN[:, :count]
        return Candidates(
            parent_SC=index_SC // offered,
            token_SC=token_BK.view(sentences, -1).gather(1, index_SC),
            logprob_SC=logprob_SN.gather(1, index_SC),
            total_SC=total_SN[:, :count],
        )

    def follow(self, chosen: Candidates) -> Paths:
        """The paths of these candidates: their parents', one token longer."""
        return Paths(
            torch.cat([_pick(self.tokens_SWT, chosen.parent_SC), chosen.token_SC[..., None]], -1),
            torch.cat([_pick(self.logprobs_SWT, chosen.parent_SC), chosen.logprob_SC[..., None]], -1),
            chosen.total_SC,
            _pick(self.length_SW, chosen.parent_SC) + 1,
        )

    def score(self, alpha: float) -> Tensor:
        return self.total_SW / length_divisor(self.length_SW.double(), alpha)

    def best_with(self, longer: Paths, alpha: float) -> Paths:
        """As many as before, by score, of these and of others at least as long. Ties: those that were here before."""
        pad = (0, longer.tokens_SWT.shape[-1] - self.tokens_SWT.shape[-1])
        padded = Paths(F.pad(self.tokens_SWT, pad), F.pad(self.logprobs_SWT, pad), self.total_SW, self.length_SW)
        both = Paths(*(torch.cat(parts, 1) for parts in zip(padded, longer)))
        order_SW = both.score(alpha).argsort(dim=1, descending=True, stable=True)[:, : self.total_SW.shape[1]]
        return Paths(*(_pick(part, order_SW) for part in both))

    def sentences(self, rows: Tensor) -> Paths:
        return Paths(*(part[rows] for part in self))

    def hypotheses(self, alpha: float, *, finished: bool) -> list[list[Hypothesis]]:
        """Per sentence, those alive, in the order they lie; the last token of a finished one is its end token."""
        parts = (*self, self.score(alpha))
        return [
            [
                Hypothesis(tokens[: length - finished], score, total, finished, logprobs[:length])
                for tokens, logprobs, total, length, score in zip(*sentence)
                if total > -torch.inf
            ]
            for sentence in zip(*(part.tolist() for part in parts))
        ]


def choose(candidates: Candidates, slots_SN: Tensor) -> Candidates:
    return Candidates(*(_pick(part, slots_SN) for part in candidates))


def _pick(parts_SW: Tensor, slots_SN: Tensor) -> Tensor:
    """parts[s, slots[s, n]], whatever dimensions follow."""
    return parts_SW[torch.arange(len(parts_SW), device=parts_SW.device)[:, None], slots_SN]
