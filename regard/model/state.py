"""What decoding asks of any model: one step forward, and a choice of how to go on.

A Transformer keeps keys and values, a recurrent network its hidden vectors, a linear attention its running sums. Greedy,
sampling and beam search see only these two methods, so each search is written once.

Dims: S sentences, W lanes of each (the hypotheses a search keeps alive; greedy search has one), V vocabulary.
"""

from __future__ import annotations

from typing import Protocol

from torch import Tensor


class State(Protocol):
    def step(self, ids_SW: Tensor) -> Tensor:
        """Take the newest token of every lane and return logits_SWV for the one after it."""
        ...

    def select(self, parents_SW: Tensor | None = None, sentences: Tensor | None = None) -> None:
        """Keep these sentences in this order (all where not given); lane w of each goes on from its lane parents_SW[s, w].

        Without parents every lane goes on from itself. The number of lanes may change.
        """
        ...
