"""How each text opens: its first token, what came before that, what it must begin with, and how long it may get.

Dims: S texts, P tokens of the prompt that are remembered, T tokens to come.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from regard.core.errors import UserError
from regard.decode.hypothesis import row_limits
from regard.model.state.protocol import EncodedInput, RowCompaction, State

T = TypeVar("T")
Tokens = Sequence[int]
NONE = -1  # where there is no token


@dataclass(frozen=True, kw_only=True)
class Prompts:
    """One per text. Of every row that was read there are `copies`, side by side, and they differ by their seeds."""

    first_S: Tensor
    limits: list[int]
    prompts: list[Tokens] | None = None  # each ends with the first token
    forced: list[Tokens] | None = None
    seeds: Tokens = ()
    copies: int = 1

    @property
    def longest_prompt(self) -> int:
        return max((len(prompt) for prompt in self.prompts or ()), default=1)

    def take(self, state: State, reading: EncodedInput, sentences: int) -> None:
        """Into a state with room for so many sentences: every row is taken once, and then copied to its places."""
        state.take(reading, self.limits[:: self.copies])
        if self.copies > 1:
            rows = [place // self.copies if place < len(self.limits) else place for place in range(sentences)]
            state.keep(RowCompaction.of(rows, self.first_S.device))

    def write_prompts(self, text_SP: Tensor) -> None:
        """The ends of the prompts, ending where the rows of `text_SP` do; without prompts, the first tokens."""
        text_SP.fill_(NONE)
        if not (width := text_SP.shape[1]):
            return
        text_SP[: len(self.first_S), -1] = self.first_S
        if self.prompts is not None:
            ends = [list(prompt[-width:]) for prompt in self.prompts]
            text_SP[: len(ends)] = torch.tensor([[NONE] * (width - len(end)) + end for end in ends], device=text_SP.device)

    def write_forced(self, forced_ST: Tensor) -> None:
        forced_ST.fill_(NONE)
        if self.forced is not None and (width := forced_ST.shape[1]):
            begins = [list(tokens[:width]) for tokens in self.forced]
            padded = [begin + [NONE] * (width - len(begin)) for begin in begins]
            forced_ST[: len(padded)] = torch.tensor(padded, device=forced_ST.device)


def openings(
    reading: EncodedInput,
    rows: int,
    sos: int | Tensor,
    maximum: Tensor | Sequence[int],
    *,
    prompts: Sequence[Tokens] | None = None,
    forced: Sequence[Tokens] | None = None,
    seeds: Tokens | None = None,
) -> Prompts:
    """Checked; what is said of a row holds for all its copies. `seeds` says how many those are."""
    limits, first_S = row_limits(maximum, rows), torch.as_tensor(sos, device=reading.device).expand(rows)
    copies = 1 if seeds is None else _copies(len(seeds), rows)
    _one_per_row(prompts, rows, "prompts")
    _one_per_row(forced, rows, "forced beginnings")
    if prompts is not None and [list(prompt[-1:]) for prompt in prompts] != [[first] for first in first_S.tolist()]:
        raise UserError("A prompt does not end with the token that writing starts from; give the last of each as `sos`.")
    return Prompts(
        first_S=first_S.repeat_interleave(copies),
        limits=_repeated(limits, copies),
        prompts=prompts if prompts is None else _repeated(prompts, copies),
        forced=_repeated(forced, copies) if forced is not None and any(forced) else None,
        seeds=seeds or (),
        copies=copies,
    )


def _repeated(items: Sequence[T], copies: int) -> list[T]:
    return [item for item in items for _ in range(copies)]


def _copies(seeds: int, rows: int) -> int:
    if seeds < rows or (seeds % rows if rows else seeds):
        raise UserError(f"{rows} rows are to be sampled, but {seeds} seeds came; give each row one, or several.")
    return seeds // rows if rows else 1


def _one_per_row(given: Sequence[Tokens] | None, rows: int, what: str) -> None:
    if given is not None and len(given) != rows:
        raise UserError(f"{rows} rows are to be decoded, but {len(given)} {what} came; give one per row.")
