"""Batches of contexts and replies for contrastive learning: each context's own reply against all others of the batch.

Contexts of like length share a batch; replies come as they come, or their length would give nothing away where it should.
Dims: B contexts and as many replies, of L tokens at most.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.core.packing import to_device
from regard.data.batching.pairs import Ragged, cuts, pad_rows, plan_by_length


@dataclass(frozen=True)
class EncodedExchanges:
    contexts: Ragged  # marks included
    replies: Ragged
    numbers: np.ndarray  # the same for the same reply

    def __len__(self) -> int:
        return len(self.numbers)

    def digest(self) -> str:
        parts = (self.contexts.offsets, self.contexts.flat, self.replies.offsets, self.replies.flat)
        return hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()


@dataclass(frozen=True)
class ExchangeBatch:
    contexts_BL: Tensor
    context_lengths_B: Tensor
    replies_BL: Tensor
    reply_lengths_B: Tensor
    numbers_B: Tensor  # who have the same reply have the same number, and are no counter-examples to each other
    tokens: int  # what the loss is counted in: here, exchanges

    def to(self, device: torch.device) -> ExchangeBatch:
        return to_device(self, device)


@dataclass(frozen=True)
class ExchangeBatches:
    """Source of batches of context-reply pairs for the loader."""

    data: EncodedExchanges
    tokens: int  # of a batch's contexts, padding counted
    seed: int
    fixed_shapes = False

    def plan(self, epoch: int) -> list[np.ndarray]:
        return plan_by_length(self.data.contexts.lengths, self.tokens, self.seed, epoch)

    def count(self, rows: np.ndarray) -> int:
        return len(rows)

    def batch(self, rows: np.ndarray, epoch: int) -> ExchangeBatch:
        return make_batch(self.data, rows)

    def in_order(self) -> list[ExchangeBatch]:
        """Yield every exchange once, for scoring."""
        order = np.argsort(self.data.contexts.lengths, kind="stable")
        return [make_batch(self.data, order[a:b]) for a, b in cuts(self.data.contexts.lengths[order], self.tokens)]


def make_batch(data: EncodedExchanges, rows: np.ndarray) -> ExchangeBatch:
    contexts, replies = pad_rows(*data.contexts.take(rows)), pad_rows(*data.replies.take(rows))
    return ExchangeBatch(*contexts, *replies, torch.from_numpy(data.numbers[rows]), len(rows))
