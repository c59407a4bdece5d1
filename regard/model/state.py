"""What decoding asks of any model: one step forward, and a choice of rows.

A Transformer keeps keys and values, a recurrent network its hidden vectors, a linear attention its running sums. Greedy,
sampling and beam search see only these two methods, so each search is written once.
"""

from __future__ import annotations

from typing import Protocol

from torch import Tensor


class State(Protocol):
    def step(self, ids_B: Tensor) -> Tensor:
        """Take the newest token of every row and return logits_BV for the one after it."""
        ...

    def select(self, rows: Tensor) -> None:
        """Keep these rows in this order: beams are reordered or repeated, finished sentences leave. Row count may change."""
        ...
