"""What a search hands back: one output, how likely the model finds it, and whether it came to an end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from torch import Tensor

from regard.core.errors import UserError

Length = TypeVar("Length", int, Tensor)


class Hypothesis(NamedTuple):
    ids: list[int]  # without the start and the end token
    score: float  # what hypotheses are ranked by: logprob / length_divisor
    logprob: float  # the sum of token_logprobs
    finished: bool  # False: cut at its maximum, stopped by a listener, or nothing could follow
    token_logprobs: list[float]  # one per id and, where finished, one more for the end token


def length_divisor(length: Length, alpha: float) -> Length:
    """lp(Y) of Wu et al. 2016, equation 14: without it, every token costs, and searches favour short outputs."""
    return ((5 + length) / 6) ** alpha


def hypothesis(tokens: list[int], logprobs: list[float], *, finished: bool, alpha: float) -> Hypothesis:
    """Of a path; the last token of a finished one is its end token."""
    logprob = sum(logprobs)
    return Hypothesis(tokens[: len(tokens) - finished], logprob / length_divisor(len(tokens), alpha), logprob, finished, logprobs)


def row_limits(maximum: Tensor | Sequence[int], rows: int) -> list[int]:
    """The most tokens each row may take, its end token counted."""
    limits = [int(limit) for limit in (maximum.tolist() if isinstance(maximum, Tensor) else maximum)]
    if len(limits) != rows:
        raise UserError(f"{rows} rows are to be decoded, but {len(limits)} maximum lengths came; give one per row.")
    if rows and min(limits) < 1:
        raise UserError(f"A maximum output length is {min(limits)}; give 1 or more.")
    return limits
