"""What a search hands back: one output, how likely the model finds it, and whether it came to an end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from regard.errors import UserError

Length = TypeVar("Length", int, Tensor)


class Hypothesis(NamedTuple):
    ids: list[int]  # without the start and the end token
    score: float  # what hypotheses are ranked by: logprob / length_divisor
    logprob: float  # the sum of token_logprobs
    finished: bool  # False: cut at its maximum, or nothing could follow
    token_logprobs: list[float]  # one per id and, where finished, one more for the end token


def length_divisor(length: Length, alpha: float) -> Length:
    """lp(Y) of Wu et al. 2016, equation 14: without it, every token costs, and searches favour short outputs."""
    return ((5 + length) / 6) ** alpha


def row_limits(maximum: Tensor | Sequence[int], rows: int) -> Tensor:
    """The most tokens each row may take, its end token counted. A search runs on the device where they lie."""
    limits_B = torch.as_tensor(maximum, dtype=torch.long)
    if limits_B.shape != (rows,):
        raise UserError(f"{rows} rows are to be decoded, but {limits_B.numel()} maximum lengths came; give one per row.")
    if rows and int(limits_B.min()) < 1:
        raise UserError(f"A maximum output length is {int(limits_B.min())}; give 1 or more.")
    return limits_B
