"""Two looks beside each other: how differently each head looked, query by query, where both have the same tokens."""

from __future__ import annotations

from typing import Any

import numpy as np

from regard.studio.looks import Look
from regard.studio.matrices import blocks, shape


def heads(a: Look, b: Look) -> dict[str, Any]:
    """By attention and head, half the summed differences of weights, as a mean over queries: 0 is the same, 1 all elsewhere."""
    found = {name: _apart(a, b, name) for name in a.seen if name in b.seen.seen and _alike(a, b, name)}
    left_out = [name for name in a.seen if name not in found]
    return {"apart": found, "left_out": left_out, "nll": [_nll(a), _nll(b)]}


def _alike(a: Look, b: Look, name: str) -> bool:
    return shape(a.attention(name)) == shape(b.attention(name))


def _apart(a: Look, b: Look, name: str) -> np.ndarray:
    count, queries, _ = shape(a.attention(name))
    total = np.zeros(count)
    both = zip(blocks(a.attention(name), range(count), range(queries)), blocks(b.attention(name), range(count), range(queries)))
    for (_, one_HRM), (_, other_HRM) in both:
        total += np.abs(one_HRM - other_HRM).sum((1, 2)) / 2
    return total / queries


def _nll(look: Look) -> float | None:
    scored = [step["nll"] for step in look.steps if step["nll"] is not None]
    return float(np.mean(scored)) if scored else None
