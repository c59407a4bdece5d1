"""What decoding asks of any model: something read, and a state that writes on from it, one step at a time.

A Transformer keeps keys and values, a recurrent network its hidden vectors, a linear attention its running sums. Greedy,
sampling and beam search see only these methods, so each search is written once.

A state lives in buffers that stay where they are. What the host decides (`take`, `reserve`, `keep`) may change sizes and wait for
the device; what happens at every token (`step`, `select`) changes only what the buffers hold, and waits for nothing. So a token's
work can be recorded once and replayed.

Dims: S sentences, W lanes of each (the hypotheses a search keeps alive; greedy search has one), V vocabulary, R rows that move.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor


class EncodedInput(Protocol):
    """What a model has read before it writes: a source, a prompt, or both."""

    @property
    def device(self) -> torch.device: ...

    @property
    def rows(self) -> int: ...

    @property
    def watched(self) -> bool:
        """Does somebody look at the model's attention, or gate it? Then every step must really run."""
        ...

    @property
    def likeness(self) -> Hashable:
        """Equal for readings that the same state can take, one after the other."""
        ...

    def room(self, sentences: int, lanes: int, tokens: int, *, fixed: bool) -> State:
        """A state for so many sentences, lanes and steps of any reading of this likeness.

        Fixed: everything is allocated now, in sizes rounded up. Otherwise memory grows with what is written.
        """
        ...


class State(Protocol):
    @property
    def shape(self) -> Hashable:
        """What kernels look at. While it stays the same, so do the kernels of a step."""
        ...

    def take(self, reading: Any, limits: Sequence[int]) -> None:
        """Begin with what was read; sentence s writes at most limits[s] tokens. Sentences beyond those read hold nothing."""
        ...

    def reserve(self, tokens: int) -> None:
        """Make room: exactly so many steps come next, and they need no more."""
        ...

    def step(self, ids_SW: Tensor) -> Tensor:
        """Take the newest token of every lane and return logits_SWV for the one after it."""
        ...

    def select(self, parents_SW: Tensor) -> None:
        """Lane w of sentence s goes on from lane parents_SW[s, w]."""
        ...

    def keep(self, moves: RowCompaction) -> None:
        """Let sentences go."""
        ...


class RowCompaction(NamedTuple):
    """Sentences move up into the places of those that leave, until the first `stay` are those that go on."""

    stay: int
    places_R: Tensor
    rows_R: Tensor

    @classmethod
    def of(cls, rows: Sequence[int], device: torch.device) -> RowCompaction:
        """Place p is taken by rows[p]; most stay where they are."""
        moving = [(place, row) for place, row in enumerate(rows) if place != row]
        pairs = torch.tensor(moving, dtype=torch.long, device=device).reshape(-1, 2)
        return cls(len(rows), pairs[:, 0], pairs[:, 1])

    def within(self, buffer_S: Tensor) -> None:
        if len(self.rows_R):
            buffer_S.index_copy_(0, self.places_R, buffer_S.index_select(0, self.rows_R))
