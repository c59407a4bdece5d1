"""Constraints on the next token: banned tokens, banned sequences, a minimum length, and forced prefixes.

Dims: B rows, V vocabulary, Q banned sequences, N tokens before the next one that they compare.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

NO_TOKEN = -1  # in place of a token id: no token is there, or any token fits


class Constraints(NamedTuple):
    """Constraints on the tokens of a search; hashable, as a key of captured graphs."""

    eos: int  # NO_TOKEN: no token is the end
    minimum_length: int = 0  # tokens before the end token
    banned: tuple[int, ...] = ()
    banned_sequences: tuple[tuple[int, ...], ...] = ()

    @property
    def context(self) -> int:
        """Return the number of latest tokens that banned sequences are compared with."""
        return max(map(len, self.banned_sequences), default=1) - 1


class ConstraintMask:
    """Constraints as tensors on a device, to be applied to log-probabilities in place."""

    def __init__(self, constraints: Constraints, device: torch.device) -> None:
        self.eos, self.minimum_length = constraints.eos, constraints.minimum_length if constraints.eos >= 0 else 0
        self.banned = torch.tensor(constraints.banned, dtype=torch.long, device=device)
        sequences, width = constraints.banned_sequences, constraints.context
        begins = [[NO_TOKEN] * (width + 1 - len(sequence)) + list(sequence[:-1]) for sequence in sequences]
        self.begin_QN = torch.tensor(begins, dtype=torch.long, device=device).reshape(len(sequences), width)
        self.last_Q = torch.tensor([sequence[-1] for sequence in sequences], dtype=torch.long, device=device)

    def apply(self, logprob_BV: Tensor, step_1: Tensor, tail_BN: Tensor | None, forced_B1: Tensor | None) -> None:
        """Set the log-probabilities of tokens that may not come next to minus infinity.

        The next token comes after `step_1` others, the latest N of which are `tail_BN` (NO_TOKEN before the first). A row whose
        `forced_B1` is a token keeps that token alone, even if it is banned.
        """
        if forced_B1 is None:
            self._ban(logprob_BV, step_1, tail_BN)
            return
        is_forced_B1, token_B1 = forced_B1 >= 0, forced_B1.clamp(min=0)
        own_B1 = logprob_BV.gather(1, token_B1)
        self._ban(logprob_BV, step_1, tail_BN)
        kept_B1 = torch.where(is_forced_B1, own_B1, logprob_BV.gather(1, token_B1))
        logprob_BV.masked_fill_(is_forced_B1, -torch.inf).scatter_(1, token_B1, kept_B1)

    def _ban(self, logprob_BV: Tensor, step_1: Tensor, tail_BN: Tensor | None) -> None:
        if len(self.banned):
            logprob_BV.index_fill_(1, self.banned, -torch.inf)
        if self.minimum_length:
            logprob_BV[:, self.eos].masked_fill_(step_1 < self.minimum_length, -torch.inf)
        if len(self.last_Q) and tail_BN is not None:
            begun_BQ = ((tail_BN[:, None] == self.begin_QN) | (self.begin_QN == NO_TOKEN)).all(2)
            # Add log(0) where a sequence has begun and log(1) elsewhere: sequences with the same last token must not overwrite
            # each other.
            logprob_BV.index_add_(1, self.last_Q, (~begun_BQ).to(logprob_BV.dtype).log())
