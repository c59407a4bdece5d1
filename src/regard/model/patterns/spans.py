"""What a pattern can say of two whole blocks of positions at once, without being asked about every pair.

A map of blocks is made of such answers: n / 64 blocks of queries against n / 64 of keys, never n x n. A pattern may be unsure,
and then says that some pair sees and that not every one does; kernels ask it about the pairs of such blocks.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Span(NamedTuple):
    """Positions from the first to the last, both included; tensors of any shapes that broadcast."""

    first: Tensor
    last: Tensor
    most: int  # positions of the longest one

    def in_blocks(self, size: int) -> Span:
        return Span(self.first // size, self.last // size, (self.most - 1) // size + 2)


class Between(NamedTuple):
    """Of the queries of one span and the keys of another: may some pair see, and does every pair?"""

    some: Tensor
    every: Tensor

    def both(self, other: Between) -> Between:
        return Between(self.some & other.some, self.every & other.every)

    def either(self, other: Between) -> Between:
        return Between(self.some | other.some, self.every | other.every)


def unsure(queries: Span, keys: Span) -> Between:
    some = (queries.first >= 0) & (keys.first >= 0)
    return Between(some, ~some)


def at_most(radius: int, queries: Span, keys: Span) -> Between:
    """Positions no further apart than this."""
    gap = torch.maximum(keys.first - queries.last, queries.first - keys.last)
    reach = torch.maximum(queries.last - keys.first, keys.last - queries.first)
    return Between(gap <= radius, reach <= radius)


def within(first: Tensor | int, last: Tensor | int, span: Span) -> Between:
    """Positions of one span alone: from the first to the last of a range, which is empty where last < first."""
    return Between((span.last >= first) & (span.first <= last), (span.first >= first) & (span.last <= last))
