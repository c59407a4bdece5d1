"""Viterbi decoding (Viterbi 1967): the most probable sequence of tags in which some tags may not follow others.

The tags of each word are scored independently, so if the best tags of all words are an allowed sequence, no other can be better
and no search is needed. Dims: W words, C tags.
"""

from __future__ import annotations

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
