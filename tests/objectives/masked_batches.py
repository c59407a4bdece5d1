"""Masked passages of random words for small BERTs of 300 words and 13 positions: what tests of these objectives share."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.core.packing import Packing
from regard.data.batching.labelled import SpecialTokens
from regard.data.batching.masked import MaskedBatch, MaskedPassages, Masking, Passages

MARKS, MASK, WORDS = SpecialTokens(1, 2, 2), 3, range(4, 300)
WINDOW = 13
IGNORED = -100


def source(*, pairs: bool = False, packed: bool = False, full: bool = False, **masking: Any) -> MaskedPassages:
    """Of documents of all lengths; or of two long ones, whose passages are full but for a few."""
    random = np.random.default_rng(3)
    lengths = [80, 80] if full else random.integers(2, 30, 12).tolist()
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    ids = random.integers(WORDS.start, WORDS.stop, sum(lengths))
    passages = Passages(ids, starts, WINDOW, MARKS, 1, pairs)
    return MaskedPassages(passages, 10**6, Masking(1, MASK, WORDS, **masking), packed, judged=True)


def rows(data: MaskedPassages, full: bool = False) -> np.ndarray:
    found = np.arange(len(data.passages))
    return found[data.passages.lengths(found) == data.passages.room] if full else found


def seen(batch: MaskedBatch) -> Tensor:
    """What of padded rows is no padding."""
    assert isinstance(batch.words, Tensor)
    return torch.arange(batch.ids_BL.shape[1]) < batch.words[:, None]


def labels(batch: MaskedBatch) -> Tensor:
    """As transformers wants them."""
    flat = torch.full_like(batch.ids_BL.flatten(), IGNORED)
    flat[batch.masked_M] = batch.targets_M
    return flat.view_as(batch.ids_BL)


def is_packed(batch: MaskedBatch) -> bool:
    return isinstance(batch.words, Packing)
