"""How long a text may be until a pattern leaves out a pair: up to there it is what `full` or `causal` is."""

from __future__ import annotations

from functools import lru_cache

import torch

from regard.model.visibility import Visibility, causal, dense, full

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
