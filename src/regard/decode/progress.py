"""How far a search has come: the step that all its sentences take together, and which of them are done.

Kept where the search runs. The host looks now and then; a sentence that is done meanwhile goes through the motions, and nothing
that belongs to its result changes any more. Dims: S sentences.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.model.state.protocol import RowCompaction

DONE, BROKEN = 0, 1


class Progress:
    def __init__(self, sentences: int, device: torch.device) -> None:
        self.sentences = sentences  # of those there is room for, so many are still in the search, and the first
        self.step_1 = torch.zeros(1, dtype=torch.long, device=device)
        self.limit_S = torch.zeros(sentences, dtype=torch.long, device=device)
        self.length_S = torch.zeros(sentences, dtype=torch.long, device=device)
        self.flags_S2 = torch.zeros(sentences, 2, dtype=torch.bool, device=device)

    def begin(self, limits: Sequence[int]) -> None:
        """Where there is room for more sentences than there are, the rest are done from the start."""
        self.sentences = len(self.limit_S)
        self.step_1.zero_()
        self.length_S.zero_()
        self.limit_S.zero_()[: len(limits)] = torch.tensor(limits, device=self.limit_S.device)
        self.flags_S2.zero_()[len(limits) :, DONE] = True

    @property
    def done_S(self) -> Tensor:
        return self.flags_S2[: self.sentences, DONE]

    def advance(self, ended_S: Tensor, broken_S: Tensor) -> None:
        """One token later: what was found of the sentences that were not done yet."""
        going_S = ~self.done_S
        self.step_1.add_(1)
        self.length_S[: self.sentences].add_(going_S)
        self.flags_S2[: self.sentences, BROKEN].logical_or_(broken_S & going_S)
        self.done_S.logical_or_(ended_S | (self.step_1 >= self.limit_S[: self.sentences]))

    def look(self) -> tuple[list[bool], list[bool]]:
        """done and broken: the one place where the host waits for the device."""
        done, broken = zip(*self.flags_S2[: self.sentences].tolist())
        return list(done), list(broken)

    def stop(self, rows: Sequence[int]) -> None:
        """These are done, as they are."""
        self.flags_S2[torch.tensor(rows, device=self.flags_S2.device), DONE] = True

    def keep(self, moves: RowCompaction) -> None:
        for buffer_S in (self.limit_S, self.length_S, self.flags_S2):
            moves.within(buffer_S)
        self.sentences = moves.stay
