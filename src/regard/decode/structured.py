"""Sequences of tags and spans of answers: the best of all that are possible, without a search over steps.

Viterbi decoding (Viterbi 1967) finds the most probable sequence of tags in which some tags may not follow others. The tags of
each word are scored independently, so if the best tags of all words are an allowed sequence, no other can be better and no search
is needed.

Answer spans are the spans of a context with the highest sum of start and end score. Each window of the context has scored its own
tokens; where windows overlap, a span gets its best score. "No answer" has the lowest of the windows' [CLS] scores minus the
threshold: it is returned first where no span scores higher (Devlin et al. 2019, section 4.3). Probabilities are a softmax over
all spans.

Dims: W words, C tags, M tokens of the context, K of the longest answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


def best_path(scores_WC: np.ndarray, may_CC: np.ndarray) -> np.ndarray:
    """Return the tags of the words. The last row and column of `may_CC` are the sentence boundary."""
    likely_W = scores_WC.argmax(1)
    around = len(may_CC) - 1
    if may_CC[[around, *likely_W], [*likely_W, around]].all():
        return likely_W
    penalty_CC = np.where(may_CC, 0.0, -np.inf)
    total_C = penalty_CC[around, :-1] + scores_WC[0]
    parent_WC = np.zeros(scores_WC.shape, np.int64)
    for n in range(1, len(scores_WC)):
        reached_CC = total_C[:, None] + penalty_CC[:-1, :-1]
        parent_WC[n] = reached_CC.argmax(0)
        total_C = reached_CC.max(0) + scores_WC[n]
    path_W = np.zeros(len(scores_WC), np.int64)
    path_W[-1] = (total_C + penalty_CC[:-1, around]).argmax()
    for n in range(len(scores_WC) - 1, 0, -1):
        path_W[n - 1] = parent_WC[n, path_W[n]]
    return path_W


NOWHERE = -1


class Part(NamedTuple):
    """The scores of one window for its part of the context."""

    begin: int  # its first token of the context
    scores: np.ndarray  # (tokens, 2): start and end score of each token
    nothing: float  # start plus end score of "no answer"


class Scored(NamedTuple):
    """A span with its score."""

    first: int  # tokens of the context; NOWHERE: no answer
    last: int
    score: float
    probability: float


def best_spans(parts: Sequence[Part], longest: int, count: int, threshold: float | None, solid: np.ndarray) -> list[Scored]:
    """Return the `count` best spans, best first; with a threshold, "no answer" is one of the candidates.

    A span starts and ends with a `solid` token; other tokens have no characters.
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
    """Return the score of every span by its first token and its further tokens; -inf where there is none."""
    found_MK = np.full((len(solid), longest), -np.inf)
    for begin, scores, _ in parts:
        end = begin + len(scores)
        starts, ends = np.where(solid[begin:end, None], scores, -np.inf).T
        later = np.concatenate([ends, np.full(longest - 1, -np.inf)])
        sums_MK = starts[:, None] + np.lib.stride_tricks.sliding_window_view(later, longest)[: len(starts)]
        np.maximum(found_MK[begin:end], sums_MK, out=found_MK[begin:end])
    return found_MK


def _largest(scores: np.ndarray, count: int) -> np.ndarray:
    """Return the indices of the `count` largest scores; of equals, the first."""
    if len(scores) <= count:
        return np.arange(len(scores))
    bar = np.partition(scores, -count)[-count]
    above, equal = np.flatnonzero(scores > bar), np.flatnonzero(scores == bar)
    return np.concatenate([above, equal[: count - len(above)]])
