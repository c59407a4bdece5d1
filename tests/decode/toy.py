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
        self.keys_SW = torch.tensor(starts, dtype=torch.long)[:, None]
        self.histories: list[list[list[int]]] = [[[start]] for start in starts]
        self.calls: list[tuple[str, int]] = []

    def step(self, ids_SW: Tensor) -> Tensor:
        assert ids_SW.dtype == torch.long
        assert ids_SW.shape == self.keys_SW.shape
        assert ids_SW.numel() > 0
        self.calls.append(("step", ids_SW.numel()))
        self.keys_SW = (self.keys_SW * 31 + ids_SW * 7 + 5) % STATES
        new = ids_SW.tolist()
        self.histories = [[[*h, token] for h, token in zip(*both)] for both in zip(self.histories, new)]
        return self.logits_NV[self.keys_SW]

    def select(self, parents_SW: Tensor | None = None, sentences: Tensor | None = None) -> None:
        kept = torch.arange(len(self.keys_SW)) if sentences is None else sentences
        assert kept.dtype == torch.long
        assert kept.dim() == 1
        assert len(kept) > 0
        keys_SW, histories = self.keys_SW[kept], [self.histories[s] for s in kept.tolist()]
        if parents_SW is not None:
            assert parents_SW.dtype == torch.long
            assert len(parents_SW) == len(kept)
            keys_SW = keys_SW.gather(1, parents_SW)
            histories = [[lanes[p] for p in parents] for lanes, parents in zip(histories, parents_SW.tolist())]
        self.keys_SW, self.histories = keys_SW, histories
        self.calls.append(("select", keys_SW.numel()))


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
