"""The most probable row of tags that a scheme allows (Viterbi 1967), where some tags must not follow some others.

Each word's tags are scored by themselves, so where the best of each make a row that is allowed, no other can be better, and there
is nothing to search. Dims: W words, C tags.
"""

from __future__ import annotations

import numpy as np


def best_path(scores_WC: np.ndarray, may_CC: np.ndarray) -> np.ndarray:
    """The tags of the words; of `may_CC` the last row and column are what lies around a sentence (see `schemes.transitions`)."""
    likely_W = scores_WC.argmax(1)
    around = len(may_CC) - 1
    if may_CC[[around, *likely_W], [*likely_W, around]].all():
        return likely_W
    barred_CC = np.where(may_CC, 0.0, -np.inf)
    total_C = barred_CC[around, :-1] + scores_WC[0]
    came_WC = np.zeros(scores_WC.shape, np.int64)
    for n in range(1, len(scores_WC)):
        reached_CC = total_C[:, None] + barred_CC[:-1, :-1]
        came_WC[n] = reached_CC.argmax(0)
        total_C = reached_CC.max(0) + scores_WC[n]
    path_W = np.zeros(len(scores_WC), np.int64)
    path_W[-1] = (total_C + barred_CC[:-1, around]).argmax()
    for n in range(len(scores_WC) - 1, 0, -1):
        path_W[n - 1] = came_WC[n, path_W[n]]
    return path_W
