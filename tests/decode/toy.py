"""A language model small enough to enumerate: the next token depends, through a table, on all tokens a row has seen.

And a Transformer whose outputs are various enough to search among.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from regard.families.transformer import Transformer, TransformerConfig
from regard.model.state.protocol import RowCompaction

SOS, EOS = 0, 1
STATES = 97


def table(seed: int, vocabulary: int, spread: float = 2.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(STATES, vocabulary, generator=generator) * spread


def after(key: int, token: int) -> int:
    return (key * 31 + token * 7 + 5) % STATES


class TableState:
    """A row is a key that each token moves on. It insists on being asked properly, and remembers what it was asked.

    It is its own reading: there is nothing to it but the key that each row starts from.
    """

    device = torch.device("cpu")
    probed = False
    session_key = "table"
    shape = "any"

    @property
    def rows(self) -> int:
        return len(self.starts)

    def __init__(self, logits_NV: Tensor, starts: Sequence[int]) -> None:
        self.logits_NV = logits_NV
        self.starts = starts
        self.calls: list[tuple[str, int]] = []
        self.reserved = 0

    def make_state(self, sentences: int, lanes: int, tokens: int, *, fixed: bool) -> TableState:
        assert sentences % len(self.starts) == 0
        self.lanes, self.places = lanes, sentences
        return self

    def load(self, reading: TableState, limits: Sequence[int]) -> None:
        assert reading is self
        assert len(limits) == len(self.starts)
        starts = [*self.starts, *[0] * (self.places - len(self.starts))]
        self.keys_SW = torch.tensor(starts)[:, None].repeat(1, self.lanes)
        self.histories = [[[start] for _ in range(self.lanes)] for start in starts]
        self.spoilt_S = torch.zeros(self.places, dtype=torch.bool)  # rows whose logits are no numbers

    def grow(self, tokens: int) -> None:
        assert self.reserved == 0
        self.reserved = tokens

    def step(self, ids_SW: Tensor) -> Tensor:
        assert ids_SW.dtype == torch.long
        assert ids_SW.shape == self.keys_SW.shape
        assert ids_SW.numel() > 0
        assert self.reserved > 0
        self.reserved -= 1
        self.calls.append(("step", ids_SW.numel()))
        self.keys_SW = (self.keys_SW * 31 + ids_SW * 7 + 5) % STATES
        self.histories = [[[*h, token] for h, token in zip(*both)] for both in zip(self.histories, ids_SW.tolist())]
        return self.logits_NV[self.keys_SW].masked_fill(self.spoilt_S[:, None, None], math.nan)

    def select(self, parents_SW: Tensor) -> None:
        assert parents_SW.dtype == torch.long
        assert parents_SW.shape == self.keys_SW.shape
        self.keys_SW = self.keys_SW.gather(1, parents_SW)
        self.histories = [[lanes[p] for p in parents] for lanes, parents in zip(self.histories, parents_SW.tolist())]

    def compact(self, moves: RowCompaction) -> None:
        rows = torch.arange(len(self.keys_SW))
        moves.within(rows)
        rows = rows[: moves.stay]
        if self.calls:
            assert 0 < len(rows) < len(self.keys_SW)
            assert len(rows.unique()) == len(rows)
        else:  # before the first step rows are copied, not let go
            assert len(rows) == self.places
            assert set(rows.tolist()) == set(range(len(self.starts)))
        self.keys_SW, self.spoilt_S, self.histories = (
            self.keys_SW[rows],
            self.spoilt_S[rows],
            [self.histories[s] for s in rows.tolist()],
        )
        self.calls.append(("compact", self.keys_SW.numel()))


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


VOCABULARY = 40


def lively(visibility: str = "full") -> Transformer:
    """With plain random weights a Transformer says one word again and again. This one ends early, late, or not at all."""
    parts = dict(width=32, heads=2, feedforward=48, layers=2, dropout=0.0, norm_placement="pre", tie="none")
    model = Transformer(TransformerConfig(**parts, visibility=visibility), VOCABULARY, VOCABULARY, seed=3).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() == 2:
                weight.mul_(4.0 if "decoder" in name else 6.0 if "head" in name else 1.0)
    return model
