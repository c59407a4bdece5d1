"""The best spans of a context: of all starts and ends that make one, those whose two scores add up to most.

Each window of the context has scored its own tokens; where windows overlap, a span has its best score of them. "No answer" has
the least of the windows' scores for [CLS] (windows without the answer should say so, others not), less the threshold: it
is said where no span is better (Devlin et al. 2019, section 4.3). A probability is a softmax over all spans that there are.

Dims: M tokens of the context, K of the longest answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

NOWHERE = -1


class Part(NamedTuple):
    """What a window says of its part of the context."""

    begin: int  # the first token of the context that it has
    scores: np.ndarray  # (tokens, 2): that an answer starts, that it ends there
    nothing: float  # start and end of "not here", together


class Scored(NamedTuple):
    first: int  # tokens of the context; NOWHERE: no answer
    last: int
    score: float
    probability: float


def best_spans(parts: Sequence[Part], longest: int, count: int, threshold: float | None, solid: np.ndarray) -> list[Scored]:
    """The best first. No answer is one of them where there is a threshold. A span starts and ends with a `solid` token: others
    stand for no character.
    """
    spans_MK = _spans(parts, longest, solid)
    flat = spans_MK.ravel()
    nothing = min(part.nothing for part in parts) - threshold if threshold is not None else -np.inf
    top = max(flat.max(initial=-np.inf), nothing)
    if top == -np.inf:
        return []
    total = np.exp(flat - top).sum() + np.exp(nothing - top)
    chosen = _largest(flat, count)
    found = [(*divmod(int(n), longest), float(flat[n])) for n in chosen if flat[n] > -np.inf]
    scored = [Scored(first, first + more, score, float(np.exp(score - top) / total)) for first, more, score in found]
    if threshold is not None:
        scored.append(Scored(NOWHERE, NOWHERE, float(nothing), float(np.exp(nothing - top) / total)))
    return sorted(scored, key=lambda one: (-one.score, one.first, one.last))[:count]


def _spans(parts: Sequence[Part], longest: int, solid: np.ndarray) -> np.ndarray:
    """The score of every span by its first token and by how many follow it; -inf where there is none."""
    found_MK = np.full((len(solid), longest), -np.inf)
    for begin, scores, _ in parts:
        end = begin + len(scores)
        starts, ends = np.where(solid[begin:end, None], scores, -np.inf).T
        later = np.concatenate([ends, np.full(longest - 1, -np.inf)])
        sums_MK = starts[:, None] + np.lib.stride_tricks.sliding_window_view(later, longest)[: len(starts)]
        np.maximum(found_MK[begin:end], sums_MK, out=found_MK[begin:end])
    return found_MK


def _largest(scores: np.ndarray, count: int) -> np.ndarray:
    """Their places; of equals the first."""
    if len(scores) <= count:
        return np.arange(len(scores))
    bar = np.partition(scores, -count)[-count]
    above, equal = np.flatnonzero(scores > bar), np.flatnonzero(scores == bar)
    return np.concatenate([above, equal[: count - len(above)]])
