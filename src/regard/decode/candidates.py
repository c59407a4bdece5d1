"""Candidates for the next token: the few most probable tokens of each row, best first, the same on every device.

Log-probabilities are the model's own: a banned token leaves the search but does not raise the others. They are computed in
float32 whatever the dtype of the logits; sums of them are kept in float64, so that rounding does not change their order.

On a CPU a rare case is computed only where it occurs. Where asking would make the host wait for the device (`fixed`), every
case is computed every time.

Constraints on the next token are banned tokens and sequences, repeated n-grams, a minimum length, and forced tokens.

Dims: B rows (the lanes of all sentences), V vocabulary, K candidates of a row, Q banned sequences, N tokens before the next one
that they compare, M tokens of the whole text.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

NO_TOKEN = -1  # in place of a token id: no token is there, or any token fits


class Constraints(NamedTuple):
    """Constraints on the tokens of a search; hashable, as a key of captured graphs."""

    eos: int  # NO_TOKEN: no token is the end
    minimum_length: int = 0  # tokens before the end token
    banned: tuple[int, ...] = ()
    banned_sequences: tuple[tuple[int, ...], ...] = ()
    more_ends: tuple[int, ...] = ()  # tokens that end a text as `eos` does
    banned_first: tuple[int, ...] = ()  # tokens that do not come first, or first after forced ones
    no_repeat_ngram: int = 0  # sequences of so many tokens occur once in a text, its prompt included; 0: as often as they like
    forced_end: bool = False  # the last token within the limit is the end
    free_forced: bool = False  # forced tokens have log-probability 0, as in transformers, not the model's own

    @property
    def context(self) -> int:
        """Return the number of latest tokens that banned sequences and n-grams are compared with."""
        return max(*map(len, self.banned_sequences), self.no_repeat_ngram, 1) - 1

    @property
    def ends(self) -> tuple[int, ...]:
        return (self.eos, *self.more_ends)

    def is_end(self, token: Tensor) -> Tensor:
        """Return which tokens end a text."""
        found = token == self.eos
        for end in self.more_ends:
            found = found | (token == end)
        return found

    def forced_now(self, forced_ST: Tensor, step_S1: Tensor, limit_S: Tensor) -> Tensor | None:
        """Return token_S1 that this step must write, NO_TOKEN where it is free; None where no step of the search is forced."""
        token_S1 = forced_ST.gather(1, step_S1) if forced_ST.shape[1] else None
        if not self.forced_end:
            return token_S1
        if token_S1 is None:
            token_S1 = torch.full_like(limit_S, NO_TOKEN)[:, None]
        last_S1 = step_S1 + 1 >= limit_S[:, None]
        return torch.where(last_S1 & (token_S1 < 0), self.eos, token_S1)


def _none_if(banned: Tensor, like: Tensor) -> Tensor:
    """Return what is added to a log-probability: minus infinity where a token is banned, else 0."""
    return torch.zeros_like(banned, dtype=like.dtype).masked_fill(banned, -torch.inf)


class ConstraintMask:
    """Constraints as tensors on a device, to be applied to log-probabilities in place."""

    def __init__(self, constraints: Constraints, device: torch.device) -> None:
        self.minimum_length = constraints.minimum_length if constraints.eos >= 0 else 0
        self.ends = torch.tensor(constraints.ends, dtype=torch.long, device=device)
        self.banned_first = torch.tensor(constraints.banned_first, dtype=torch.long, device=device)
        self.ngram, self.free_forced = constraints.no_repeat_ngram, constraints.free_forced
        self.banned = torch.tensor(constraints.banned, dtype=torch.long, device=device)
        sequences, width = constraints.banned_sequences, constraints.context
        begins = [[NO_TOKEN] * (width + 1 - len(sequence)) + list(sequence[:-1]) for sequence in sequences]
        self.begin_QN = torch.tensor(begins, dtype=torch.long, device=device).reshape(len(sequences), width)
        self.last_Q = torch.tensor([sequence[-1] for sequence in sequences], dtype=torch.long, device=device)

    def apply(
        self,
        logprob_BV: Tensor,
        step_B1: Tensor,
        tail_BN: Tensor | None,
        forced_B1: Tensor | None,
        text_BM: Tensor | None = None,
        first: int = 0,
    ) -> None:
        """Set the log-probabilities of tokens that may not come next to minus infinity.

        The next token of a row comes after `step_B1` others, the latest N of which are `tail_BN` (NO_TOKEN before the first);
        `text_BM` are all of them, in order, with NO_TOKEN around them. A row whose `forced_B1` is a token keeps that token alone,
        even if it is banned. `first` is the step that is the first free one.
        """
        if forced_B1 is None:
            self._ban(logprob_BV, step_B1, tail_BN, text_BM, first)
            return
        is_forced_B1, token_B1 = forced_B1 >= 0, forced_B1.clamp(min=0)
        own_B1 = logprob_BV.gather(1, token_B1)
        if self.free_forced:
            own_B1 = torch.zeros_like(own_B1)
        self._ban(logprob_BV, step_B1, tail_BN, text_BM, first)
        kept_B1 = torch.where(is_forced_B1, own_B1, logprob_BV.gather(1, token_B1))
        logprob_BV.masked_fill_(is_forced_B1, -torch.inf).scatter_(1, token_B1, kept_B1)

    def _ban(self, logprob_BV: Tensor, step_B1: Tensor, tail_BN: Tensor | None, text_BM: Tensor | None, first: int) -> None:
        if len(self.banned):
            logprob_BV.index_fill_(1, self.banned, -torch.inf)
        if len(self.banned_first):
            early = _none_if(step_B1 == first, logprob_BV)
            logprob_BV.index_add_(1, self.banned_first, early.expand(len(logprob_BV), len(self.banned_first)))
        if self.minimum_length:
            early = _none_if(step_B1 < self.minimum_length, logprob_BV)
            logprob_BV.index_add_(1, self.ends, early.expand(len(logprob_BV), len(self.ends)))
        if self.ngram and text_BM is not None and tail_BN is not None and text_BM.shape[1] >= self.ngram:
            grams_BQN = text_BM.unfold(1, self.ngram, 1)
            latest_BN = tail_BN[:, tail_BN.shape[1] - self.ngram + 1 :]
            seen_BQ = (grams_BQN[..., :-1] == latest_BN[:, None]).all(2) & (grams_BQN >= 0).all(2)
            logprob_BV.scatter_add_(1, grams_BQN[..., -1].clamp(min=0), _none_if(seen_BQ, logprob_BV))
        if len(self.last_Q) and tail_BN is not None:
            begun_BQ = ((tail_BN[:, None] == self.begin_QN) | (self.begin_QN == NO_TOKEN)).all(2)
            # Add log(0) where a sequence has begun and log(1) elsewhere: sequences with the same last token must not overwrite
            # each other.
            logprob_BV.index_add_(1, self.last_Q, (~begun_BQ).to(logprob_BV.dtype).log())


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
        step_B1: Tensor,
        tail_BN: Tensor | None = None,
        forced_B1: Tensor | None = None,
        text_BM: Tensor | None = None,
        first: int = 0,
    ) -> AllowedTokens:
        """Return log-probabilities under the constraints; the arguments are those of `ConstraintMask.apply`."""
        allowed = AllowedTokens(*log_probabilities(logits_BV, fixed=self.fixed))
        self.mask.apply(allowed.logprob_BV, step_B1, tail_BN, forced_B1, text_BM, first)
        return allowed

    def best(self, logits_BV: Tensor, count: int, step_B1: Tensor, tail_BN: Tensor | None = None, *more: Any) -> TopCandidates:
        """Return the K = min(count, V) most probable tokens; of equally probable ones, the lower id comes first."""
        allowed = self.allowed(logits_BV, step_B1, tail_BN, *more)
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
