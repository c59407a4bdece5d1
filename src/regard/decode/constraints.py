"""What may not come next: banned tokens, sequences that must not be completed, an end too early, all but what is forced.

Dims: B rows, V vocabulary, Q banned sequences, N tokens that they look back on.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.decode.rules import Rules

ANY = -1  # what a short sequence begins with, to be as long as the others


class Constraints:
    def __init__(self, rules: Rules, device: torch.device) -> None:
        self.eos, self.minimum = rules.eos, rules.minimum if rules.eos >= 0 else 0
        self.banned = torch.tensor(rules.banned, dtype=torch.long, device=device)
        sequences, width = rules.banned_sequences, rules.look_back
        begins = [[ANY] * (width + 1 - len(sequence)) + list(sequence[:-1]) for sequence in sequences]
        self.begin_QN = torch.tensor(begins, dtype=torch.long, device=device).reshape(len(sequences), width)
        self.last_Q = torch.tensor([sequence[-1] for sequence in sequences], dtype=torch.long, device=device)

    def lower(self, logprob_BV: Tensor, step_1: Tensor, tail_BN: Tensor | None, forced_B1: Tensor | None) -> None:
        """To minus infinity, in place, for the token after `step_1` others, the latest N of which are `tail_BN` (-1: none).

        Where a token is forced (-1: free) it may come whatever is banned, and nothing else may.
        """
        if forced_B1 is None:
            self._lower(logprob_BV, step_1, tail_BN)
            return
        is_forced_B1, token_B1 = forced_B1 >= 0, forced_B1.clamp(min=0)
        own_B1 = logprob_BV.gather(1, token_B1)
        self._lower(logprob_BV, step_1, tail_BN)
        kept_B1 = torch.where(is_forced_B1, own_B1, logprob_BV.gather(1, token_B1))
        logprob_BV.masked_fill_(is_forced_B1, -torch.inf).scatter_(1, token_B1, kept_B1)

    def _lower(self, logprob_BV: Tensor, step_1: Tensor, tail_BN: Tensor | None) -> None:
        if len(self.banned):
            logprob_BV.index_fill_(1, self.banned, -torch.inf)
        if self.minimum:
            logprob_BV[:, self.eos].masked_fill_(step_1 < self.minimum, -torch.inf)
        if len(self.last_Q) and tail_BN is not None:
            begun_BQ = ((tail_BN[:, None] == self.begin_QN) | (self.begin_QN == ANY)).all(2)
            # The logarithm of 0 where a sequence has begun, of 1 elsewhere; several may end alike, so they are added.
            logprob_BV.index_add_(1, self.last_Q, (~begun_BQ).to(logprob_BV.dtype).log())
