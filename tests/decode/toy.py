"""A language model small enough to enumerate: the next token depends, through a table, on all tokens a row has seen."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

SOS, EOS = 0, 1
STATES = 97


def table(seed: int, vocabulary: int, spread: float = 2.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(STATES, vocabulary, generator=generator) * spread


def after(key: int, token: int) -> int:
    return (key * 31 + token * 7 + 5) % STATES


class TableState:
    """A row is a key that each token moves on. It insists on being asked properly, and remembers what it was asked."""

    def __init__(self, logits_NV: Tensor, starts: Sequence[int]) -> None:
        self.logits_NV = logits_NV
        self.keys_B = torch.tensor(starts, dtype=torch.long)
        self.histories: list[list[int]] = [[start] for start in starts]
        self.calls: list[tuple[str, int]] = []

    def step(self, ids_B: Tensor) -> Tensor:
        assert ids_B.dtype == torch.long
        assert ids_B.shape == self.keys_B.shape
        assert len(ids_B) > 0
        self.calls.append(("step", len(ids_B)))
        self.keys_B = (self.keys_B * 31 + ids_B * 7 + 5) % STATES
        self.histories = [[*history, token] for history, token in zip(self.histories, ids_B.tolist())]
        return self.logits_NV[self.keys_B]

    def select(self, rows: Tensor) -> None:
        assert rows.dtype == torch.long
        assert rows.dim() == 1
        assert len(rows) > 0
        assert rows.min() >= 0
        assert rows.max() < len(self.keys_B)
        self.calls.append(("select", len(rows)))
        self.keys_B = self.keys_B[rows]
        self.histories = [self.histories[row] for row in rows.tolist()]


class Oracle:
    """The same model asked in plain Python, one sentence and one token at a time."""

    def __init__(self, logits_NV: Tensor, start: int, banned: Sequence[int] = (), minimum: int = 0) -> None:
        self.logprobs = logits_NV.log_softmax(-1).tolist()
        self.start = after(start, SOS)
        self.banned, self.minimum = set(banned), minimum

    def nexts(self, ids: Sequence[int]) -> list[tuple[float, int]]:
        """(log-probability, token) of all that may follow, best first, ties to the lower id."""
        key = self.start
        for token in ids:
            key = after(key, token)
        barred = self.banned | ({EOS} if len(ids) < self.minimum else set())
        choices = [(p, token) for token, p in enumerate(self.logprobs[key]) if token not in barred and p > -math.inf]
        return sorted(choices, key=lambda choice: (-choice[0], choice[1]))


def divisor(length: int, alpha: float) -> float:
    return math.pow((5.0 + length) / 6.0, alpha)
