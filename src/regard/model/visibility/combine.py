"""Patterns made of patterns: both at once (&), either (|), and a pattern over the places that tokens have in their documents.

`plain` finds the ones that need no mask: everything, or everything before, without padding and each document by itself. A mixer
that never compares single pairs can serve these alone. `whole_up_to` says how long a text may be until a sparse pattern leaves
out a pair: up to there it is `full` or `causal`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import gcd
from typing import Any

import torch
from torch import Tensor

from regard.model.sparse.blocks import Between, Span
from regard.model.visibility import Causal, Documents, End, Full, Padding, Reach, Visibility, causal, dense, full


@dataclass(frozen=True, eq=False)
class Placed(Visibility):
    """A pattern over the places that tokens have in their documents, not in the row that several documents share."""

    pattern: Visibility
    queries_BL: Tensor
    keys_BM: Tensor
    varies = True

    @property
    def sees_itself(self) -> bool:  # type: ignore[override]
        return self.pattern.sees_itself

    @property
    def looks_back(self) -> bool:  # type: ignore[override]
        return self.pattern.looks_back

    @property
    def counts(self) -> bool:  # type: ignore[override]
        return self.pattern.counts

    @property
    def data_independent(self) -> Visibility:
        return full

    def with_length(self, end: End) -> Visibility:
        if not self.looks_back and self.pattern.with_length(0) != self.pattern:
            raise TypeError(f"{self.pattern} depends on where a text ends, so texts for it are padded, not packed")
        return self

    def sees(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return self.pattern.sees(b, h, self.queries_BL[b, i], self.keys_BM[b, j])

    def __str__(self) -> str:
        return str(self.pattern)


def _in_both(name: str) -> Any:
    return property(lambda self: getattr(self.left, name) and getattr(self.right, name))


def _in_one(name: str) -> Any:
    return property(lambda self: getattr(self.left, name) or getattr(self.right, name))


def _common_block_size() -> Any:
    return property(lambda self: gcd(self.left.block_size, self.right.block_size))


def _bare(pattern: Visibility, kind: type[Visibility]) -> str:
    """Return the text of a pattern without brackets that a chain of its kind does not need."""
    return str(pattern)[1:-1] if isinstance(pattern, kind) else str(pattern)


@dataclass(frozen=True)
class Both(Visibility):
    left: Visibility
    right: Visibility

    sees_itself, sees_first, relative = _in_both("sees_itself"), _in_both("sees_first"), _in_both("relative")
    looks_back, varies, counts, packing = _in_one("looks_back"), _in_one("varies"), _in_one("counts"), _in_one("packing")
    block_size = _common_block_size()

    @property
    def reach(self) -> Reach | None:  # type: ignore[override]
        if self.left.reach is None or self.right.reach is None:
            return None
        before, after = (min(pair, key=lambda n: (n < 0, n)) for pair in zip(self.left.reach, self.right.reach))
        return before, after

    @property
    def lengths_B(self) -> Tensor | None:  # type: ignore[override]
        return self.right.lengths_B if self.left.lengths_B is None else self.left.lengths_B

    @property
    def parts(self) -> tuple[Visibility, ...]:
        return self.left.parts + self.right.parts

    @property
    def data_independent(self) -> Visibility:
        return self.left.data_independent & self.right.data_independent

    def with_length(self, end: End) -> Visibility:
        """Pass the length to both parts; a causal conjunction must not depend on where a sequence ends."""
        end = None if self.looks_back else end
        return Both(self.left.with_length(end), self.right.with_length(end))

    def sees(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        left, right = self.left.sees(b, h, i, j), self.right.sees(b, h, i, j)
        return left * right if self.counts else left & right

    def between(self, b: Tensor, queries: Span, keys: Span) -> Between:
        return self.left.between(b, queries, keys).both(self.right.between(b, queries, keys))

    def wide(self, b_B1: Tensor, size: int) -> Tensor | None:
        """Return the global blocks of a single pattern with padding; None for any other conjunction."""
        patterns = [part for part in self.parts if part.lengths_B is None]
        return patterns[0].wide(b_B1, size) if len(patterns) == 1 else None

    def __str__(self) -> str:
        return f"({_bare(self.left, Both)} & {self.right})"


@dataclass(frozen=True)
class Either(Visibility):
    left: Visibility
    right: Visibility

    sees_itself, sees_first, relative = _in_one("sees_itself"), _in_one("sees_first"), _in_both("relative")
    looks_back, varies, counts = _in_both("looks_back"), _in_one("varies"), _in_one("counts")
    block_size = _common_block_size()

    @property
    def data_independent(self) -> Visibility:
        return self.left.data_independent | self.right.data_independent

    def with_length(self, end: End) -> Visibility:
        return Either(self.left.with_length(end), self.right.with_length(end))

    def sees(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        left, right = self.left.sees(b, h, i, j), self.right.sees(b, h, i, j)
        return torch.maximum(left * 1, right * 1) if self.counts else left | right

    def between(self, b: Tensor, queries: Span, keys: Span) -> Between:
        some, every = self.left.between(b, queries, keys).either(self.right.between(b, queries, keys))
        return Between(some, every & (not self.counts))  # one may see more than once what the other sees once

    def wide(self, b_B1: Tensor, size: int) -> Tensor | None:
        """Return the global blocks of both sides; None where keys are counted, since copies have only a mask."""
        found = [each for side in (self.left, self.right) if (each := side.wide(b_B1, size)) is not None]
        return torch.cat(found, 1) if found and not self.counts else None

    def __str__(self) -> str:
        return f"({_bare(self.left, Either)} | {self.right})"


@dataclass(frozen=True, eq=False)
class UnmaskedPattern:
    causal: bool = False
    lengths_B: Tensor | None = None  # of the keys
    documents_BL: Tensor | None = None  # numbers of those that lie end to end, the same for queries and keys

    def and_(self, other: UnmaskedPattern) -> UnmaskedPattern | None:
        """Both at once, if they do not each say something about the same."""
        if (self.lengths_B is not None and other.lengths_B is not None) or (
            self.documents_BL is not None and other.documents_BL is not None
        ):
            return None
        return UnmaskedPattern(
            self.causal or other.causal,
            other.lengths_B if self.lengths_B is None else self.lengths_B,
            other.documents_BL if self.documents_BL is None else self.documents_BL,
        )


def plain(visibility: Visibility) -> UnmaskedPattern | None:
    """None of any other pattern."""
    match visibility:
        case Full():
            return UnmaskedPattern()
        case Causal():
            return UnmaskedPattern(causal=True)
        case Padding(lengths_B):
            return UnmaskedPattern(lengths_B=lengths_B)
        case Documents(queries_BL, keys_BM) if queries_BL is keys_BM:
            return UnmaskedPattern(documents_BL=queries_BL)
        case Both(left, right):
            one, two = plain(left), plain(right)
            return None if one is None or two is None else one.and_(two)
        case _:
            return None


def must_be_plain(visibility: Visibility, mixer: str) -> UnmaskedPattern:
    """Return the unmasked form of a visibility, or refuse it: recipes are checked earlier, models built by hand here."""
    found = plain(visibility)
    if found is None:
        raise ValueError(f"{mixer} sees everything or everything before, with padding or documents; it cannot see {visibility}")
    return found


LONGEST = 2048  # tokens that are asked about


@lru_cache(maxsize=64)
def whole_up_to(pattern: Visibility, *, back: bool = False) -> int:
    """The most tokens of a text whose every pair is seen, `LONGEST` for more; `back`: every pair that looks back.

    Found by halving: what is seen whole is seen whole in shorter texts.
    """
    least, most = 0, LONGEST + 1
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (middle, most) if _is_whole(pattern, middle, back) else (least, middle)
    return least


def _is_whole(pattern: Visibility, tokens: int, back: bool) -> bool:
    queries_L = torch.arange(tokens)
    seen, wanted = (dense(each.with_length(tokens), queries_L, tokens) > 0 for each in (pattern, causal if back else full))
    return bool((seen | ~wanted).all())
