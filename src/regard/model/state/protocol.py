"""The interface between models and searches: an encoded input, and a state that decodes from it, one step at a time.

A Transformer keeps keys and values, a recurrent network its hidden vectors, linear attention its running sums. Greedy search,
sampling and beam search use only these members, so each is written once; docs/decoding.md has the picture.

A state lives in buffers that keep their addresses. What the host decides (`load`, `grow`, `compact`) may change sizes and wait
for the device. What happens at every token (`step`, `select`) changes only the contents of the buffers and waits for nothing,
so a CUDA graph can capture it.

Dims: S sentences, W lanes of each (the hypotheses that a search keeps alive; greedy search has one), V vocabulary, R rows that
move.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor


class EncodedInput(Protocol):
    """Sources or prompts that a model has encoded, one a row."""

    @property
    def device(self) -> torch.device: ...

    @property
    def rows(self) -> int: ...

    @property
    def probed(self) -> bool:
        """Return whether a probe records or gates the model's attention: then every step must run in Python."""
        ...

    @property
    def session_key(self) -> Hashable:
        """Return a key that is equal for inputs which the same state can load, one after the other."""
        ...

    def make_state(self, sentences: int, lanes: int, tokens: int, *, fixed: bool) -> State:
        """Create a state for this many sentences, lanes and steps of any input with this session key.

        Fixed: everything is allocated now, in sizes rounded up. Otherwise memory grows with the tokens written.
        """
        ...


class State(Protocol):
    """The decoder state of all lanes of all sentences."""

    @property
    def shape(self) -> Hashable:
        """Return the sizes that kernels depend on: while they stay equal, a step launches the same kernels."""
        ...

    def load(self, encoded: Any, limits: Sequence[int]) -> None:
        """Start from an encoded input; sentence s writes at most limits[s] tokens. Sentences beyond its rows are empty."""
        ...

    def grow(self, tokens: int) -> None:
        """Make room for exactly this many further steps."""
        ...

    def step(self, ids_SW: Tensor) -> Tensor:
        """Take the newest token of every lane and return logits_SWV for the one after it."""
        ...

    def select(self, parents_SW: Tensor) -> None:
        """Let lane w of sentence s continue from lane parents_SW[s, w]."""
        ...

    def compact(self, moves: RowCompaction) -> None:
        """Remove sentences that are done."""
        ...


class RowCompaction(NamedTuple):
    """Moves of sentences into the rows of those that leave, until the first `stay` rows are those that go on."""

    stay: int
    places_R: Tensor
    rows_R: Tensor

    @classmethod
    def of(cls, rows: Sequence[int], device: torch.device) -> RowCompaction:
        """Return the moves that bring rows[p] to place p; most rows stay where they are."""
        moving = [(place, row) for place, row in enumerate(rows) if place != row]
        pairs = torch.tensor(moving, dtype=torch.long, device=device).reshape(-1, 2)
        return cls(len(rows), pairs[:, 0], pairs[:, 1])

    def within(self, buffer_S: Tensor) -> None:
        """Apply the moves to the first dimension of a buffer, in place."""
        if len(self.rows_R):
            buffer_S.index_copy_(0, self.places_R, buffer_S.index_select(0, self.rows_R))
