"""What a search is: rules, and a way to advance by one token, for all sentences at once and in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from regard.decode.hypothesis import Hypothesis
from regard.decode.progress import Progress
from regard.model.state import Moves, Reading, State


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What may come out, how wide to look, and what wins."""

    eos: int
    banned: tuple[int, ...] = ()  # tokens that never come out
    minimum: int = 0  # tokens before the end token
    beam: int = 1
    alpha: float = 0.0  # length penalty
    n_best: int = 1


class Search(Protocol):
    """Some lanes of some sentences, in buffers that stay where they are."""

    state: State
    progress: Progress

    def begin(self, reading: Reading, first_S: Tensor, limits: Sequence[int]) -> None:
        """Search anew, from these first tokens."""
        ...

    def advance(self) -> None:
        """One token for every sentence, without asking the device anything."""
        ...

    def keep(self, moves: Moves) -> None:
        """Let sentences go."""
        ...

    def hypotheses(self, rows_R: Tensor) -> list[list[Hypothesis]]:
        """Of sentences that are done, best first."""
        ...


Kind = Callable[[Rules, Reading, int, int, bool], Search]  # rules, reading, and room: sentences, tokens, fixed
