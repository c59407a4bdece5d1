"""Likelihood of texts by a model with a memory: every token is read once, with the memory of the segments before its own.

Windows that overlap read a token again for every stride (`likelihood.py`); here the inputs of each layer are kept instead, so a
text costs one pass however far a token sees (Dai et al. 2019, section 4.6).

Dims: B texts, L tokens of a segment.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from regard.core.packing import Segment
from regard.metrics.likelihood import TOKENS_PER_BATCH, Ids
from regard.model.memory.segments import reading
from regard.objectives.chunked_cross_entropy import chunks


@torch.no_grad()
def segment_log_probabilities(
    model: Any, texts: Sequence[Ids], *, start: int, segment: int, memory: int, tokens_per_batch: int = TOKENS_PER_BATCH
) -> list[np.ndarray]:
    """Return log p of every token given those before it: one float32 array for each text."""
    found = [np.empty(len(text), dtype=np.float32) for text in texts]
    order, size = sorted(range(len(texts)), key=lambda n: -len(texts[n])), max(1, tokens_per_batch // segment)
    was_training = model.training
    model.train(False)
    try:
        for begin in range(0, len(order), size):
            with reading(model, segment, memory):
                _score(model, texts, order[begin : begin + size], found, start, segment)
    finally:
        model.train(was_training)
    return found


def _score(model: Any, texts: Sequence[Ids], rows: Sequence[int], found: list[np.ndarray], start: int, segment: int) -> None:
    """Score texts side by side, the longest first; one that has ended leaves the batch."""
    device = next(model.parameters()).device
    for begin in range(0, len(texts[rows[0]]), segment):
        going = [n for n in rows if len(texts[n]) > begin]
        length = min(segment, len(texts[going[0]]) - begin)
        ids = np.full((len(going), length + 1), start, dtype=np.int64)  # padding comes after all tokens of its text
        for row, n in enumerate(going):
            part = np.asarray(texts[n][max(0, begin - 1) : begin + length])
            ids[row, begin == 0 :][: len(part)] = part
        ids_BL = torch.from_numpy(ids).to(device)
        streams_B = torch.arange(len(going), device=device)
        where = Segment(streams_B, torch.full_like(streams_B, begin == 0, dtype=torch.bool), len(rows))
        x_ND, targets_N = model.hidden(ids_BL[:, :-1], where).flatten(0, 1), ids_BL[:, 1:].flatten()
        scores_BL = torch.cat(
            [
                -F.cross_entropy(model.head(x_ND[first:last]).float(), targets_N[first:last], reduction="none")
                for first, last in chunks(x_ND, len(model.head.project.weight))
            ]
        ).view(len(going), length)
        for row, n in zip(scores_BL.cpu().numpy(), going):
            found[n][begin : begin + length] = row[: len(found[n]) - begin]
