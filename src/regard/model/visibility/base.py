"""What every pattern is: a yes or no for a query and a key, an answer for whole blocks of them, and how patterns are combined."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard.model.sparse.blocks import Between, Span, blocks_of, unsure
from regard.model.sparse.dispatch import choose
from regard.model.visibility.mask import Packed, Reach, View

if TYPE_CHECKING:
    from regard.core.packing import Packing

End = int | Tensor | None  # where sequences end: all alike, each at its own end_B, or not known yet


class Visibility:
    """The combinators every pattern shares. `full` disappears from a conjunction, so it never costs a mask."""

    # What a pattern promises of every query: that it sees its own position, or the first key. Either keeps it from seeing nobody.
    sees_itself: bool = False
    sees_first: bool = False
    reach: Reach | None = None  # where the pattern is that simple
    packing: tuple[Packing, Packing] | None = None  # of queries and keys, where sequences are packed into rows
    lengths_B: Tensor | None = None  # of padded sequences
    places: tuple[Tensor, Tensor] | None = None  # of queries and keys in documents of their own, where several share a row
    looks_back: bool = False  # never ahead of its own position
    relative: bool = False  # asks only how far apart two positions are
    varies: bool = False  # from one sequence of a batch to the next
    counts: bool = False  # `sees` says how many times a key is seen, not only whether
    block_size: int = 1  # borders lie at multiples of this only, and between two of them `between` is exact; 0: there are none

    def sees(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        raise NotImplementedError

    def between(self, b: Tensor, queries: Span, keys: Span) -> Between:
        return unsure(queries, keys)

    def wide(self, b_B1: Tensor, size: int) -> Tensor | None:
        """number_BW of the blocks of this size in which someone sees everybody, or is seen by everybody, for kernels that share
        them out. One may be named twice, or not be there."""
        return None

    @property
    def parts(self) -> tuple[Visibility, ...]:
        """All of which must agree."""
        return (self,)

    @property
    def data_independent(self) -> Visibility:
        """What of it holds for every batch: at least all that is seen here."""
        return self

    def with_length(self, end: End) -> Visibility:
        """Told where sequences end. A pattern that depends on it, and was not told, sees what is certain whatever follows."""
        return self

    def __and__(self, other: Visibility) -> Visibility:
        if isinstance(self, Full):
            return other
        if other.places is not None and not self.relative:
            return Both(Placed(self, *other.places), other)
        if self.places is not None and not other.relative:
            return Both(self, Placed(other, *self.places))
        return self if isinstance(other, Full) else Both(self, other)

    def __or__(self, other: Visibility) -> Visibility:
        return full if isinstance(self, Full) or isinstance(other, Full) else Either(self, other)

    def over(
        self, length: int, memory: int, *, batch: int = 1, offset: int | Tensor = 0, device: torch.device, mask: bool = True
    ) -> View:
        """Lay the pattern over `length` queries, the first at position `offset`, and `memory` keys from position 0.

        Without a mask, for a mixer that never compares them.
        """
        settled = self.with_length(memory if self.lengths_B is None else self.lengths_B)
        if not mask:
            return View(settled, batch, length, memory, offset, device)
        return settled._over(length, memory, batch, offset, device)

    def _over(self, length: int, memory: int, batch: int, offset: int | Tensor, device: torch.device) -> View:
        if isinstance(self, Full):
            return View(self, batch, length, memory, offset, device)
        if isinstance(self, Causal) and length == memory and isinstance(offset, int) and offset == 0:
            return View(self, batch, length, memory, offset, device, causal=True)
        if self.packing is not None and self.reach is not None and device.type == "cuda":
            return View(self, batch, length, memory, offset, device, packed=Packed(*self.packing, self.reach))
        if isinstance(offset, int) and (choice := choose(self.data_independent, length, memory, offset, device.type)).size:
            sizes = length, memory, choice.size
            blocks = blocks_of(self, *sizes, batch=batch, offset=offset, device=device, shared=choice.shared)
            return View(self, batch, length, memory, offset, device, blocks=blocks)
        return View(self, batch, length, memory, offset, device).rendered()


@dataclass(frozen=True)
class Full(Visibility):
    sees_itself = sees_first = relative = True
    reach = (-1, -1)
    block_size = 0

    def sees(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return j >= 0

    def between(self, b: Tensor, queries: Span, keys: Span) -> Between:
        some = keys.first >= 0
        return Between(some, some)

    def __str__(self) -> str:
        return "full"


@dataclass(frozen=True)
class Causal(Visibility):
    sees_itself = sees_first = relative = looks_back = True
    reach = (-1, 0)

    def sees(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return j <= i

    def between(self, b: Tensor, queries: Span, keys: Span) -> Between:
        return Between(keys.first <= queries.last, keys.last <= queries.first)

    def __str__(self) -> str:
        return "causal"


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
    """Without the brackets that one more of its kind does not need."""
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
        """What may not look ahead cannot know where a sequence will end."""
        end = None if self.looks_back else end
        return Both(self.left.with_length(end), self.right.with_length(end))

    def sees(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        left, right = self.left.sees(b, h, i, j), self.right.sees(b, h, i, j)
        return left * right if self.counts else left & right

    def between(self, b: Tensor, queries: Span, keys: Span) -> Between:
        return self.left.between(b, queries, keys).both(self.right.between(b, queries, keys))

    def wide(self, b_B1: Tensor, size: int) -> Tensor | None:
        """What padding leaves as wide as it was; of other conjunctions nothing is known to be."""
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
        """Nothing where keys are seen several times: what is shared out has only a mask."""
        found = [each for side in (self.left, self.right) if (each := side.wide(b_B1, size)) is not None]
        return torch.cat(found, 1) if found and not self.counts else None

    def __str__(self) -> str:
        return f"({_bare(self.left, Either)} | {self.right})"


full = Full()
causal = Causal()
