"""Visibilities that need no mask: everything, or everything before, without padding and each document by itself.

A mixer that never compares single pairs can serve these alone. `whole_up_to` says how long a text may be until a sparse pattern
leaves out a pair: up to there it is `full` or `causal`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from regard.model.visibility import Causal, Documents, Full, Padding, Visibility, causal, dense, full
from regard.model.visibility.combine import Both


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
