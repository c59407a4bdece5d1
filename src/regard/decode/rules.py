"""What a search is: rules, and a way to advance by one token, for all sentences at once and in place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from torch import Tensor

from regard.core.errors import UserError
from regard.decode.hypothesis import Hypothesis
from regard.decode.progress import Progress
from regard.decode.prompts import Prompts
from regard.decode.sampling_config import MOST_PROBABLE, Choice
from regard.model.state.kv_cache import roomy
from regard.model.state.protocol import EncodedInput, RowCompaction, State

Listener = Callable[[int, list[int]], bool]
"""Told a sentence's number and the tokens that are new since it was last told; True ends that sentence there."""


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What may come out, how it is chosen or how wide to look, and what wins."""

    eos: int  # -1: no token is the end
    banned: tuple[int, ...] = ()  # tokens that never come out
    banned_sequences: tuple[tuple[int, ...], ...] = ()  # whose last token never follows the others
    minimum: int = 0  # tokens before the end token
    choice: Choice = MOST_PROBABLE
    beam: int = 1
    alpha: float = 0.0  # length penalty
    n_best: int = 1

    def __post_init__(self) -> None:
        if not all(self.banned_sequences):
            raise UserError("A banned sequence has no tokens; leave it out.")

    @property
    def look_back(self) -> int:
        """How many of the latest tokens decide about the next."""
        return max(map(len, self.banned_sequences), default=1) - 1

    @property
    def remembers(self) -> bool:
        """Does it matter what came before?"""
        return bool(self.banned_sequences) or self.choice.repetition_penalty != 1


class Room(NamedTuple):
    """What a search has buffers for."""

    sentences: int
    tokens: int  # of each, to be written
    prompt: int = 0  # tokens before those, of searches that remember
    forced: bool = False  # must some of them begin in a given way?
    fixed: bool = False  # everything is allocated at once, and every case is computed every time

    @classmethod
    def of(cls, openings: Prompts, rules: Rules, *, fixed: bool) -> Room:
        prompt = max(openings.longest_prompt, rules.look_back) if rules.remembers else 0
        return cls(len(openings.limits), max(openings.limits), prompt, openings.forced is not None, fixed)

    def rounded(self) -> Room:
        """To few sizes, so that one search after another fits."""
        sentences, prompt = 1 << (self.sentences - 1).bit_length(), roomy(self.prompt) if self.prompt else 0
        return self._replace(sentences=sentences, tokens=roomy(self.tokens), prompt=prompt)


class Search(Protocol):
    """Some lanes of some sentences, in buffers that stay where they are."""

    state: State
    progress: Progress

    def begin(self, reading: EncodedInput, openings: Prompts) -> None:
        """Search anew."""
        ...

    def advance(self) -> None:
        """One token for every sentence, without asking the device anything."""
        ...

    def keep(self, moves: RowCompaction) -> None:
        """Let sentences go."""
        ...

    def written(self, rows_R: Tensor, since: int) -> list[list[int]]:
        """What sentences have written after `since` tokens that nothing will change, the end token left out."""
        ...

    def hypotheses(self, rows_R: Tensor) -> list[list[Hypothesis]]:
        """Of sentences that are done, best first."""
        ...


Kind = Callable[[Rules, EncodedInput, Room], Search]
